"""The page that builds a plug-in line by line: its code is the plug-in's, and it runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from support.plug_ins import PLUG_INS
from support.recordings import write_recording

from storyframes.testing import check_extractor

PAGE = (PLUG_INS.parent / "docs" / "extending.md").read_text()
EXAMPLE = PLUG_INS / "storyframes-example"


def blocks(language: str, of: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", of, re.MULTILINE | re.DOTALL)


def lines(code: str) -> list[str]:
    """Those that say something: how many empty ones are between them is the formatter's."""
    return [line for line in code.splitlines() if line.strip()]


def the_class() -> str:
    section = PAGE[PAGE.index("## The class") : PAGE.index("## The distribution")]
    return "\n".join(blocks("python", section))


def test_the_page_s_code_is_the_plug_in_s() -> None:
    assert lines(the_class()) == lines((EXAMPLE / "storyframes_example.py").read_text())


def test_the_plug_in_is_one_file_of_under_forty_lines() -> None:
    assert [path.name for path in EXAMPLE.glob("*.py")] == ["storyframes_example.py"]
    assert len((EXAMPLE / "storyframes_example.py").read_text().splitlines()) < 40


def test_the_page_s_project_is_the_plug_in_s() -> None:
    (shown,) = blocks("toml")
    told, real = tomllib.loads(shown)["project"], tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert {name: real[name] for name in told} == told


def test_the_page_s_code_keeps_the_contract(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "built_by_the_page.py").write_text(the_class())
    monkeypatch.syspath_prepend(tmp_path)
    from built_by_the_page import Brightness  # type: ignore[import-not-found]

    check_extractor(Brightness, write_recording(tmp_path / "recording.avi", 12))


def test_every_rule_of_the_page_is_one_that_is_checked() -> None:
    from storyframes.testing.rules import RULES

    table = PAGE[PAGE.index("| rule |") : PAGE.index("`settings=` gives")]
    assert len(lines(table)) - 2 == 1 + len(RULES)  # the heading and its line; the class's own rules come first
