"""Every file of a release with its SHA-256, and whether a release is still just that."""

from __future__ import annotations

import json
from pathlib import Path

from storyframes.release.pseudonyms import KEY
from storyframes.release.settings import ReleaseError
from storyframes.store.durable import sha256_file

MANIFEST = "manifest.json"
FORMAT = 1


def write_manifest(folder: Path) -> dict[str, dict[str, int | str]]:
    """Write ``manifest.json`` of all that lies in a folder; gives back what it says of each file."""
    files: dict[str, dict[str, int | str]] = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    content = json.dumps({"format": FORMAT, "files": files}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(content + "\n", encoding="utf-8")
    return files


def verify_release(folder: Path) -> list[str]:
    """What is wrong with a release, a sentence each: nothing where every file is as released, and none beside them.

    Raises:
        ReleaseError: there is none, or its manifest is damaged.
    """
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        if content["format"] != FORMAT:
            raise ReleaseError(f"{folder / MANIFEST} is of a newer storyframes: update it")
        files = content["files"]
        known = {str(path): (int(file["bytes"]), str(file["sha256"])) for path, file in files.items()}
    except FileNotFoundError:
        raise ReleaseError(f"{folder} is no release: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReleaseError(f"{folder / MANIFEST} is damaged, so nothing can be told of the release") from None
    found = [f"{path}: is missing" for path in known if not (folder / path).is_file()]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found.append(f"{name}: is a link")
        elif path.is_dir():
            if not any(path.iterdir()) and not any(one.startswith(f"{name}/") for one in known):
                found.append(f"{name}: is an empty folder, which does not belong to the release")
        elif not path.is_file():
            found.append(f"{name}: is no file")  # a pipe, perhaps, which nobody could read to its end
        elif name == MANIFEST or name in known:
            if name in known and (path.stat().st_size, sha256_file(path)) != known[name]:
                found.append(f"{name}: is not as it was released")
        elif KEY.encode() in path.read_bytes():
            found.append(f"{name}: is the key that leads back to the ids; take it out, and give it to nobody")
        else:
            found.append(f"{name}: does not belong to the release")
    return found
