"""A folder that appears complete or not at all, and is replaced only by another export."""

from __future__ import annotations

import json
from pathlib import Path

import storyframes
from storyframes import FeatureStore
from storyframes.store import open_storage, parse_json, sha256_file
from storyframes_release.export.formats import ExportError

README, MANIFEST = "README.md", "export.json"


class Described:
    """What ``export.json`` says of an export, its files by path with size and SHA-256."""

    files: dict[str, dict[str, int | str]]

    def to_json(self) -> str:
        """``export.json``."""
        content = {"format": 1, "storyframes": storyframes.__version__, **vars(self)}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def refuse_inside(store: FeatureStore, target: Path) -> None:
    """Check that ``target`` is outside of the store.

    Raises:
        ExportError: it is inside.
    """
    folder = store.storage.local("")
    if folder and target.resolve().is_relative_to(folder.resolve()):
        raise ExportError(f"{target} is inside the feature store: give a place outside of it")


def refuse_to_replace(target: Path, *, replace: bool) -> None:
    """Check that ``target`` does not exist, or is an unchanged export that may be replaced.

    Raises:
        ExportError: it is something else; the message says what to do.
    """
    if not target.is_symlink() and not target.exists():
        return
    if not replace:
        raise ExportError(f"{target} is there already: give another place, or --replace where it is an earlier export")
    try:
        files = parse_json(open_storage(target.absolute()).read(MANIFEST) or b"")["files"]
        written = {str(path): (int(file["bytes"]), str(file["sha256"])) for path, file in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ExportError(f"{target} is no export (no {MANIFEST} of one), so it is not replaced") from None
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if path.is_symlink() or (not path.is_dir() and name != MANIFEST and name not in written):
            raise ExportError(f"{path} was not written by an export, so {target} is not replaced: move it away first")
        if name in written and (path.stat().st_size, sha256_file(path)) != written[name]:
            raise ExportError(f"{path} was changed since it was exported, so {target} is not replaced: move it away")


def seal(folder: Path, readme: str, done: Described) -> None:
    """Write the README, and ``export.json`` with the size and the SHA-256 of every file; files get mode 0600."""
    (folder / README).write_text(readme, encoding="utf-8")
    done.files = described_files(folder)
    (folder / MANIFEST).write_text(done.to_json(), encoding="utf-8")
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def described_files(folder: Path) -> dict[str, dict[str, int | str]]:
    """Size and SHA-256 of every file below a folder, by its path below it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in paths
    }
