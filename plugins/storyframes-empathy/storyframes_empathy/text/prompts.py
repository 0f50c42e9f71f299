"""The prompts of the paper, word for word, and how a sample's texts are attached to them.

The system and task prompts are the paper's; how the texts are attached is not said there, so that part is ours. A text
is data: nothing tells the model to obey what stands in one.
"""

from __future__ import annotations

from enum import StrEnum

from storyframes_empathy.text.samples import Sample

SYSTEM = (
    "You are a psychologist with expertise in analyzing empathy. You can predict how much people might empathize with "
    "each other, based on their past experiences."
)
SHARE = (
    "You will receive two stories, one from person A and the other from person B. Please predict, on a scale from 0 to "
    "1, how much person A would empathize with B's story. Return just the number, no other text."
)
REFLECTION = (
    "You will receive a story and conversation between person A and person B about person A's reflections about the "
    "story. Based on this, please predict, on a scale from 0 to 1, how much person A would empathize with the story. "
    "Return just the number, no other text."
)


class Prompt(StrEnum):
    """What the model is told that it receives."""

    SHARE = "share"
    REFLECTION = "reflection"


def messages(sample: Sample, prompt: Prompt) -> list[dict[str, str]]:
    """What is sent for one sample: the system prompt, then the task with the sample's texts."""
    if prompt is Prompt.SHARE:
        task = f"{SHARE}\n\nPerson A's story:\n{sample.said}\n\nPerson B's story:\n{sample.story}"
    else:
        task = f"{REFLECTION}\n\nStory:\n{sample.story}\n\nConversation:\n{sample.said}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
