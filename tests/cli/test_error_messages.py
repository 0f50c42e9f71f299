"""No error ends a command with the name of its class alone: the message is what a reader has."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import typer
from support.stores import local, publish_openface
from typer.testing import CliRunner

from flows.cli import terminal
from flows.cli.app import app
from flows.cli.terminal import refused_if, usage_errors
from storyframes.plug_ins import describe_error
from storyframes.store import compact
from storyframes.store.layout import create_store
from storyframes.store.storage import StorageError, reason_of

ROOT = Path(__file__).parents[2]
TEXT = "the table 'a.csv' has no row 7"
OTHER_ARGUMENTS: dict[str, Callable[[type], Exception]] = {
    "IncompleteError": lambda cls: cls(TEXT),
    "NotTextError": lambda cls: cls(TEXT, 7),
    "RefusedError": lambda cls: cls(ValueError(TEXT)),
    "TableFaultError": lambda cls: cls("a.csv", [TEXT]),
    "TrainingFailedError": lambda cls: cls(TEXT, 1, 2),
}
NO_MESSAGE = {
    "StudyError",
    "IncompleteError",
    "ServerLostError",
    "NotBegunError",
}  # a table, or what catches them says it


def error_classes(*folders: str) -> list[str]:
    """Every class of an error in these folders, as ``module:Class``."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = ".".join(path.relative_to((ROOT / folder).parent).with_suffix("").parts).removesuffix(".__init__")
            tree = ast.parse(path.read_text())
            found += [
                f"{module}:{node.name}"
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef) and node.bases and node.name.endswith("Error")
            ]
    return found


def told(error: Exception, *refused: type[Exception], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints that ends with this error."""
    with contextlib.ExitStack() as commands:
        commands.enter_context(pytest.raises(typer.Exit))
        commands.enter_context(usage_errors())
        if refused:
            commands.enter_context(refused_if(*refused))
        raise error
    return " ".join(capsys.readouterr().err.split())


PLUG_INS = sorted(path.parent for path in ROOT.glob("plugins/*/storyframes_*/__init__.py"))
FOLDERS = ("storyframes", "tasks", "flows", *(str(path.relative_to(ROOT)) for path in PLUG_INS))


@pytest.mark.slow
@pytest.mark.parametrize("name", error_classes(*FOLDERS))
def test_every_error_of_ours_is_told_in_its_own_words(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for plug_in in PLUG_INS:  # their code, without the entry points of an installed one
        monkeypatch.syspath_prepend(str(plug_in.parent))
    module, _, class_name = name.partition(":")
    if class_name in NO_MESSAGE:
        return
    cls = getattr(import_module(module), class_name)
    error = OTHER_ARGUMENTS.get(class_name, lambda cls: cls(TEXT))(cls)
    assert TEXT in describe_error(error)
    assert TEXT in told(error, cls, capsys=capsys)
    if isinstance(error, OSError):
        assert TEXT in terminal.describe(error)
        assert TEXT in reason_of(error)
        for refused in ((), (ValueError,)):  # as of a command that does not name it
            assert TEXT in told(error, *refused, capsys=capsys)


@pytest.mark.parametrize("refused", [(), (ValueError,)])
def test_an_error_of_the_system_is_told_by_its_words_or_its_text(
    refused: tuple[type[Exception], ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert TEXT in told(StorageError(TEXT), *refused, capsys=capsys)
    assert TEXT in told(OSError(TEXT), *refused, capsys=capsys)
    assert TEXT in told(TimeoutError(TEXT), *refused, capsys=capsys)
    full = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "/a/b.parquet")
    assert "/a/b.parquet: disk quota exceeded" in told(full, *refused, capsys=capsys)
    assert told(OSError(), *refused, capsys=capsys).endswith("OSError")  # there is nothing else


@pytest.mark.parametrize("table", ["clips.parquet", "catalogue.parquet"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("elsewhere"), Path.mkdir], ids=["fifo", "link", "folder"]
)
def test_clips_names_the_table_that_cannot_be_read(table: str, make: Callable[[Path], object], tmp_path: Path) -> None:
    create_store(tmp_path / "store")
    publish_openface(tmp_path / "store", "a", 8)
    compact(local(tmp_path / "store"))
    path = tmp_path / "store" / table
    path.unlink(missing_ok=True)
    make(path)
    done = CliRunner().invoke(app, ["clips", str(tmp_path / "store")], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert f"{table}: cannot be read" in done.output
