"""Prompts of personas, and what is read of answers."""

from __future__ import annotations

import pytest
from support.messages import missing

from storyframes_empathy.statistics.personas import Answer, Trait, persona_prompt, read_answer


def test_a_prompt_has_its_four_parts_in_order() -> None:
    persona = {Trait.PERSPECTIVE_TAKING: "high", Trait.GENDER: "female"}
    prompt = persona_prompt("How sad is this?\n\n{value} text", Answer.RATING, persona)
    instruction, said, question, text, form = prompt.split("\n\n")
    assert not missing(instruction, "You take part in a")
    assert said.index("female") < said.index("point of view of others is high")
    assert (question, text) == ("How sad is this?", "{value} text")  # a text is data, whatever stands in it
    assert "one whole number from 1" in form


def test_without_a_persona_there_is_no_sentence_of_one() -> None:
    own = persona_prompt("Why?", Answer.LIST, instruction="Do this.")
    assert own.startswith("Do this.\n\nWhy?\n\nAnswer with a JSON list")


@pytest.mark.parametrize(("question", "persona"), [(" ", {}), ("Why?", {Trait.GENDER: ""})])
def test_what_says_nothing_is_refused(question: str, persona: dict[Trait, str]) -> None:
    with pytest.raises(ValueError, match="is empty"):
        persona_prompt(question, Answer.RATING, persona)


@pytest.mark.parametrize("trait", Trait)
@pytest.mark.parametrize("answer", Answer)
def test_every_trait_and_form_has_a_text(trait: Trait, answer: Answer) -> None:
    assert "very {x}" in persona_prompt("Why?", answer, {trait: "very {x}"})


@pytest.mark.parametrize(
    ("text", "rating", "number"),
    [
        ("4", 4, 4),
        (" **4.**\n", 4, 4),
        ('"Score: 5"', 5, 5),
        ("3.5", None, 3.5),
        ("Score: 2,25", None, 2.25),
        ("4.0", 4, 4),
        ("0", None, None),
        ("6", None, None),
        ("-2", None, None),
        ("4/5", None, None),
        ("4 or 5", None, None),
        ("I would say 4", None, None),
        ("nan", None, None),
        ("1e0", None, None),
        ("", None, None),
        ("I'm sorry, I cannot rate this.", None, None),
    ],
)
def test_numbers(text: str, rating: float | None, number: float | None) -> None:
    assert read_answer(text, Answer.RATING) == rating
    assert read_answer(text, Answer.NUMBER) == number


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('["sad", " alone "]', ["sad", "alone"]),
        ('```json\n["sad"]\n```', ["sad"]),
        ("- sad\n- alone\n", ["sad", "alone"]),
        ("1. sad\n2) alone", ["sad", "alone"]),
        ("[]", []),
        ('["sad", 3]', None),
        ('["sad", ""]', None),
        ('["sad"', None),
        ("sad, alone", None),
        ("I'm sorry, I cannot help with that.", None),
        ("Here is a list:\n- sad", None),
        ('{"feelings": ["sad"]}', None),
        ("", None),
    ],
)
def test_lists(text: str, items: list[str] | None) -> None:
    assert read_answer(text, Answer.LIST) == items
