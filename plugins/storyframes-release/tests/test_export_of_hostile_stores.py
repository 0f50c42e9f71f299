"""Exports of stores from strangers: refused in one line or written whole, and nothing outside is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hostile_stores import ATTACKS, change_catalogue, copy_beside_a_secret, refuse_or_read, write_harmless
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes_release.export.formats import Format
from storyframes_release.export.run import export


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_harmless(tmp_path_factory.mktemp("made"))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return copy_beside_a_secret(made, tmp_path)


def export_all(store: Path) -> None:
    export(FeatureStore(store), store.parent / "exported" / "files", Format.NPY)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_store_is_exported_or_refused_in_one_line(store: Path, attack: str) -> None:
    ATTACKS[attack][0](store)
    said = refuse_or_read(store, {"export": export_all})
    assert said.get("export", "refused") != ""
    assert bool(said) != (store.parent / "exported/files/export.json").exists()
    assert not (store.parent / "outside/lock").exists()


def test_an_export_of_a_strangers_store_writes_nothing_elsewhere(store: Path, tmp_path: Path) -> None:
    change_catalogue(store, session_id="../../../outside/x")
    result = CliRunner().invoke(app, ["export", str(store), "--out", str(tmp_path / "exported/files")])
    assert result.exit_code == 2, result.output
    assert "'../../../outside/x' is no session" in result.output
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret.json"]
