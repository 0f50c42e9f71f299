"""Prompts that make a language model answer as a person of some kind, and what its answers say.

A prompt has four parts: instruction, persona, question, and the form of the answer. The texts lie in
``personas.toml`` and are this project's own wording. Nothing here sends anything: what a question quotes of a study is
sent by the caller, and the rules of docs/text.md hold for that.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from storyframes_empathy.text.prompts import parse_answer

_ITEM = re.compile(r"(?:[-*•]|\d{1,2}[.)])\s+(\S.*)")
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)
LOWEST, HIGHEST = 1, 5


class Trait(StrEnum):
    """What is said of the person."""

    GENDER = "gender"
    EMPATHIC_CONCERN = "empathic_concern"
    PERSPECTIVE_TAKING = "perspective_taking"
    SHARED_EXPERIENCE = "shared_experience"


class Answer(StrEnum):
    """What is asked for."""

    RATING = "rating"  # a whole number from 1 to 5
    NUMBER = "number"  # any number from 1 to 5
    LIST = "list"  # texts


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("storyframes_empathy.statistics").joinpath("personas.toml").read_text(encoding="utf-8"))


def persona_prompt(
    question: str, answer: Answer, persona: Mapping[Trait, str] | None = None, instruction: str | None = None
) -> str:
    """The prompt of one question.

    Args:
        question: with the text that it is about.
        answer: what is asked for.
        persona: what is said of the person, by trait: ``{Trait.EMPATHIC_CONCERN: "high"}``. None or empty: nothing.
        instruction: in place of this project's own.

    Raises:
        ValueError: the question or a trait says nothing.
    """
    if not question.strip():
        raise ValueError("the question is empty")
    texts, said = _texts(), dict(persona or {})
    if silent := [trait for trait, value in said.items() if not value.strip()]:
        raise ValueError(f"the persona's {silent[0]} is empty: leave the trait out")
    sentences = [texts["persona"][trait].replace("{value}", said[trait].strip()) for trait in Trait if trait in said]
    parts = [
        (instruction or texts["instruction"]).strip(),
        " ".join(sentences),
        question.strip(),
        texts["output"][answer],
    ]
    return "\n\n".join(filter(None, parts))


def read_answer(text: str, answer: Answer) -> float | list[str] | None:
    """What an answer says; None where it is not of the form that was asked for.

    A rating or number is read as scores of texts are. A list is a JSON list of texts or has an item a line; a sentence
    with commas is none, because it may be a refusal.
    """
    if answer is Answer.LIST:
        return _list(text)
    number = parse_answer(text, LOWEST, HIGHEST)
    return None if number is None or (answer is Answer.RATING and not number.is_integer()) else number


def _list(text: str) -> list[str] | None:
    fenced = _FENCE.fullmatch(text.strip())
    bare = (fenced.group(1) if fenced else text).strip()
    if bare.startswith("["):
        try:
            found = json.loads(bare)
        except ValueError:
            return None
        is_texts = isinstance(found, list) and all(isinstance(one, str) and one.strip() for one in found)
        return [one.strip() for one in found] if is_texts else None
    items = [_ITEM.fullmatch(line.strip()) for line in bare.splitlines() if line.strip()]
    return [item.group(1).strip() for item in items if item] if items and all(items) else None
