"""The prompts of the paper, word for word, how texts are attached to them, and how a number is read out of an answer.

The system and task prompts are the paper's; how the texts are attached is not said there, so that part is ours. A text
is data: nothing tells the model to obey what is written in it.
"""

from __future__ import annotations

import re
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
    """What the prompt says that the model receives."""

    SHARE = "share"
    REFLECTION = "reflection"


def messages(sample: Sample, prompt: Prompt) -> list[dict[str, str]]:
    """What is sent for one sample: the system prompt, then the task with the sample's texts."""
    if prompt is Prompt.SHARE:
        task = f"{SHARE}\n\nPerson A's story:\n{sample.said}\n\nPerson B's story:\n{sample.story}"
    else:
        task = f"{REFLECTION}\n\nStory:\n{sample.story}\n\nConversation:\n{sample.said}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]


_NUMBER = re.compile(r"\d*[.,]?\d+")
_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")  # 1,000 may be one or a thousand; 0,700 is no thousands
_AROUND = " \t\r\n\"'`*"
_PREFIX = re.compile(r"score\s*:\s*", re.IGNORECASE)


def parse_answer(answer: str, low: float = 0.0, high: float = 1.0) -> float | None:
    """The one number that an answer is; None where it is anything else, or out of the scale.

    Quotes, asterisks, a leading ``Score:``, a trailing full stop and a decimal comma are forgiven; prose, a sign, a
    percentage, an exponent, two numbers and a comma that may part thousands are not.

    >>> parse_answer("**0,7**.")
    0.7
    >>> parse_answer("1,000") is None
    True
    >>> parse_answer("between 0.6 and 0.8") is None
    True
    """
    bare = _PREFIX.sub("", answer.strip(_AROUND), count=1).strip(_AROUND).removesuffix(".").strip(_AROUND)
    if not _NUMBER.fullmatch(bare) or _THOUSANDS.fullmatch(bare):
        return None
    value = float(bare.replace(",", "."))
    return value if low <= value <= high else None
