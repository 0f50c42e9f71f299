"""What a study or an error says shows in Markdown as it is, and as nothing else: read by a Markdown parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from flows.run import RunResult
from flows.server.artifacts import summary
from storyframes.store.records import Status
from tasks.extract import Outcome
from tasks.inspect.formatting import markdown_table, plain_markdown

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NASTY = [
    "a | b",
    "---",
    "| --- |",
    "row 3\n| x |",
    "**bold** _low_ ~~gone~~ `code`",
    "[a](http://x) ![b](c.png)",
    "<b>bold</b> &amp; &lt;",
    "# heading",
    "\\| \\\\",
    "p_01_x",
    "<!-- comment",
]


def cells(text: str) -> list[str]:
    """What each cell of the tables shows; anything in it that is no plain character is an error."""
    return [shown(token) for token in PARSER.parse(text) if token.type == "inline"]


def shown(inline: Any) -> str:
    for child in inline.children:
        assert child.type in ("text", "text_special"), child
    return "".join(child.content for child in inline.children)


@pytest.mark.parametrize("text", NASTY)
def test_a_cell_is_what_it_says(text: str) -> None:
    assert cells(markdown_table(("a", text), [(text, 3)])) == ["a", " ".join(text.split()), " ".join(text.split()), "3"]


@given(st.text(st.sampled_from("a1 \\`*_[](){}|#!~<>&;-+.\n\t:=x\"'/"), max_size=30))
def test_any_text_is_what_it_says(text: str) -> None:
    assert cells(markdown_table(("a",), [(text,)])) == ["a", " ".join(text.split())]
    assert cells(f"x {plain_markdown(text)} x")[0].split() == f"x {text} x".split()


@pytest.mark.parametrize("text", NASTY)
def test_a_run_s_summary_shows_every_reason_as_it_is(text: str) -> None:
    failed = Outcome("s1", "openface", Status.FAILED, reason=text)
    result = RunResult((failed,), 1, 42, 75.0, excluded={"s2": text}, warnings={"s3": text}, problem=text)
    assert cells(summary(result)).count(" ".join(text.split())) == 3
