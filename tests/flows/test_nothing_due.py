"""Where nothing is due and nothing changed, the tables stay as they are; whatever changes, they are made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.servers.prefect_runs import request
from support.stores import local

from flows.in_process import perform_in_process
from flows.run import RunResult, conclude, open_run, planned
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CATALOGUE, CHECKSUMS, CLIPS, CLIPS_NOTE, INPUTS
from storyframes.store.storage import local_folder
from tasks.clip_index import index, kept_index

ROOT = Path(__file__).parents[2]
_LONG_AGO_S = 1_700_000_000
_HEAVY = {"av", "cv2", "dask", "numpy", "pandas", "prefect", "pyarrow", "scipy", "torch", "yaml", "zarr"}


class Repeated:
    """An extraction of a copy of a study that is run again and again; ``made`` counts how often its index was."""

    def __init__(self, study: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.study, self.root, self.sections = folder / "study", folder / "features", {"clips": {"window": 15}}
        self.made = 0
        shutil.copytree(study, self.study)
        # Checksums of files that changed within two seconds are not kept; a run that keeps them later makes the tables
        # once more.
        for path in self.study.rglob("*"):
            os.utime(path, (_LONG_AGO_S, _LONG_AGO_S))
        patch.setattr(local_folder, "_SETTLED_NS", 0)  # nothing here changes twice within a tick of the clock
        patch.setattr(kept_index, "_SETTLED_S", 0)
        build = index.build_clip_index

        def counted(*arguments: Any) -> object:
            self.made += 1
            return build(*arguments)

        patch.setattr(index, "build_clip_index", counted)

    def run(self) -> RunResult:
        run = planned(open_run(request(self.study, self.root, self.sections, only=("frames",))))
        return conclude(run, perform_in_process(run) if run.plan.units else ())

    def tables(self) -> dict[str, bytes]:
        return {name: (self.root / name).read_bytes() for name in (CATALOGUE, CLIPS)}


@pytest.fixture
def settled(small_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """One that has run three times: with work, without work, and without anything to make."""
    repeated = Repeated(small_study, tmp_path, monkeypatch)
    for _ in range(3):
        repeated.run()
    assert repeated.made == 2
    return repeated


def test_what_is_said_is_what_was_said_when_the_index_was_made(settled: Repeated) -> None:
    (settled.root / CLIPS_NOTE).unlink()
    tables, anew = settled.tables(), settled.run()
    assert settled.made == 3
    kept = settled.run()
    assert settled.made == 3
    assert settled.tables() == tables
    assert anew.clips == kept.clips == len(FeatureStore(settled.root).clips()) > 0
    assert (kept.excluded, kept.warnings, kept.remarks) == (anew.excluded, anew.warnings, anew.remarks)


@pytest.mark.slow
def test_neither_arrow_nor_pandas_is_imported(settled: Repeated) -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules))\n"
        "from storyframes.store.storage import local_folder; local_folder._SETTLED_NS = 0\n"
        "from tasks.clip_index import kept_index; kept_index._SETTLED_S = 0\n"
        "from flows.cli.entry import main; main()"
    )
    asked = ["extract", settled.study, settled.root, "--features", "frames"]
    asked += ["--config", settled.root.with_name("storyframes.toml")]
    command = [sys.executable, "-c", code, *map(str, asked)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *_, said, modules = ended.stdout.splitlines()
    assert "0 extracted, 2 up to date" in said
    assert {module.partition(".")[0] for module in modules.split()} & _HEAVY == {"numpy"}


def rating(settled: Repeated) -> None:
    table = settled.study / "ratings.csv"
    table.write_text(table.read_text().rstrip("\n").rpartition("\n")[0] + "\n")


def settings(settled: Repeated) -> None:
    settled.sections = {"clips": {"window": 16}}


def recording(settled: Repeated) -> None:
    """Its content is the same, its time of change another: nothing says that the content is."""
    os.utime(next((settled.study / "videos").iterdir()))


def record(settled: Repeated) -> None:
    path = next(settled.root.glob("*/frames/current.json"))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def damaged(name: str) -> Callable[[Repeated], None]:
    def damage(settled: Repeated) -> None:
        path = settled.root / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    damage.__name__ = name
    return damage


def missing(name: str) -> Callable[[Repeated], None]:
    def remove(settled: Repeated) -> None:
        (settled.root / name).unlink()

    remove.__name__ = f"no {name}"
    return remove


def others_index(settled: Repeated) -> None:
    """Somebody else wrote another one in between, whose checksum is right."""
    content = FeatureStore(settled.root).clips().iloc[:3]
    index.write_clip_index(content, local(settled.root))


@pytest.mark.parametrize(
    "change",
    [
        *(rating, settings, recording, record, others_index),
        *(damaged(name) for name in (CATALOGUE, CLIPS, CLIPS_NOTE, CHECKSUMS)),
        *(missing(name) for name in (CATALOGUE, CLIPS, CLIPS_NOTE, CHECKSUMS)),
    ],
    ids=lambda change: change.__name__,
)
def test_whatever_changes_the_tables_are_made_again(settled: Repeated, change: Callable[[Repeated], None]) -> None:
    change(settled)
    result = settled.run()
    assert settled.made == 3
    clips, tables = FeatureStore(settled.root).clips(), settled.tables()
    assert result.clips == len(clips)
    for name in (*tables, CHECKSUMS, CLIPS_NOTE):
        (settled.root / name).unlink(missing_ok=True)
    assert settled.run().clips == len(clips)
    assert FeatureStore(settled.root).clips().equals(clips)
    assert settled.tables()[CLIPS] == tables[CLIPS]


def test_a_file_that_has_just_changed_may_change_again_unnoticed(
    settled: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_index, "_SETTLED_S", 10**9)
    settled.run()
    settled.run()
    assert settled.made == 4


def test_code_that_changed_beneath_a_process_made_nothing_of_it(
    settled: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is made by what was imported, so it may not be noted as one that the files make."""
    monkeypatch.setattr(kept_index, "_IMPORTED_S", 0.0)
    kept_index._code.cache_clear()
    settled.run()
    settled.run()
    kept_index._code.cache_clear()
    assert settled.made == 4


def test_the_note_names_nothing_that_the_store_does_not(settled: Repeated) -> None:
    note = json.loads((settled.root / CLIPS_NOTE).read_text())
    assert set(note) == {
        *("made_of", "sha256", "clips", "excluded", "warnings", "remarks", "format", "checksum"),
    }  # fmt: skip
    assert (settled.root / CLIPS_NOTE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", [CLIPS_NOTE, INPUTS])
def test_a_cache_that_cannot_be_read_keeps_no_table_from_being_made(settled: Repeated, name: str) -> None:
    (settled.root / name).unlink(missing_ok=True)
    (settled.root / name).symlink_to(settled.study / "sessions.csv")
    rating(settled)
    result = settled.run()
    assert not result.problem
    assert settled.made == 3
    assert result.clips == len(FeatureStore(settled.root).clips())
