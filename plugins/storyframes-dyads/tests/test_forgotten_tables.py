"""Rows of people who withdrew leave the tables of turns and synchrony, and never those of a study."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from storyframes_dyads.written import find_forgotten
from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.study.forgotten_ids import ForgottenIds

ROWS = "session_id,person,value\ns1,a,1\ns2,b,2.50\n"


@pytest.mark.parametrize("names", [("persons", "turns", "events"), ("sessions", "windows", "study")])
def test_rows_of_forgotten_sessions_leave_the_tables(tmp_path: Path, names: tuple[str, ...]) -> None:
    for folder in ("out", "lab"):
        (tmp_path / folder).mkdir()
    for name in names:
        (tmp_path / f"out/{name}.csv").write_text(ROWS if name != "study" else "between,mean\na,1\n")
    (tmp_path / "lab/persons.csv").write_text(ROWS)  # a study's own
    (tmp_path / "lab/sessions.csv").write_text(ROWS)
    asked = Asked(tmp_path / "study", Scope(ForgottenIds(frozenset({"s1"}))), [tmp_path])
    for trace in find_forgotten(asked):
        assert "s1" not in trace.what
        trace.remove()
    for name in names:
        assert "s1" not in (tmp_path / f"out/{name}.csv").read_text()
    assert "s2,b,2.50\n" in (tmp_path / f"out/{names[1]}.csv").read_text()
    assert (tmp_path / "lab/persons.csv").read_text() == (tmp_path / "lab/sessions.csv").read_text() == ROWS


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.forget"] == {
        "dyads": f"{find_forgotten.__module__}:{find_forgotten.__name__}"
    }
