"""What a language model is asked of a pair of stories, one question an aspect. The wording is our own.

The publications on story similarity give the scale and the four aspects, and no text that could be used here, so scores
by these prompts are not to be compared with published ones as if the question had been the same.
"""

from __future__ import annotations

import hashlib

from storyframes_empathy.pairs.table import HIGHEST, LOWEST, Aspect

OWN_WORDING = "the prompt is storyframes' own wording, not that of a publication"
SYSTEM = "You compare two personal stories and rate how similar they are in one respect."
_RESPECTS = {
    Aspect.EVENT: "in what happens: the events, the situation and its outcome",
    Aspect.EMOTION: "in what the narrators feel: the emotions and how strong they are",
    Aspect.MORAL: "in what the narrators take from it: the lesson or moral",
    Aspect.EMPATHY: "overall, so that the narrator of one story would empathize with the narrator of the other",
}
_ENDS = f"{LOWEST:g} means not similar at all and {HIGHEST:g} means very similar"


def task(aspect: Aspect) -> str:
    """The question, without stories."""
    return (
        f"You will receive two stories. Please rate, on a scale from {LOWEST:g} to {HIGHEST:g}, how similar they are "
        f"{_RESPECTS[aspect]}. {_ENDS}. Return just the number, no other text."
    )


def messages(first: str, second: str, aspect: Aspect) -> list[dict[str, str]]:
    """What is sent for one order of a pair. A story is data: nothing tells the model to obey what stands in one."""
    content = f"{task(aspect)}\n\nFirst story:\n{first}\n\nSecond story:\n{second}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


def prompt_digest(aspect: Aspect) -> str:
    """SHA-256 of the question, to tell in a record which one it was."""
    return hashlib.sha256(f"{SYSTEM}\n{task(aspect)}".encode()).hexdigest()
