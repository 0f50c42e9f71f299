"""Boxes of people who withdrew are found by the entry point of the plug-in."""

from __future__ import annotations

import tomllib
from pathlib import Path

from storyframes_people.proposal import find_forgotten, find_outdated
from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.study.forgotten_ids import ForgottenIds


def test_boxes_of_forgotten_sessions_and_tracks_are_found(tmp_path: Path) -> None:
    (tmp_path / "regions").mkdir()
    for name in ("s1@a.csv", "s1@b.csv", "s2@a.csv", "s2@b.csv", "s10@a.csv", "notes.csv"):
        (tmp_path / "regions" / name).write_text("time_s,x,y,w,h\n")
    scope = Scope(ForgottenIds(frozenset({"s1"}), tracks=frozenset({("s2", "b")})))
    found = [*find_forgotten(Asked(tmp_path, scope, []))]
    assert [Path(trace.where).name for trace in found] == ["s1@a.csv", "s1@b.csv", "s2@b.csv"]
    for trace in found:
        trace.remove()
    assert sorted(path.name for path in (tmp_path / "regions").iterdir()) == ["notes.csv", "s10@a.csv", "s2@a.csv"]


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for group, function in (("forget", find_forgotten), ("check", find_outdated)):
        assert project["entry-points"][f"storyframes.{group}"] == {
            "people": f"{function.__module__}:{function.__name__}"
        }
