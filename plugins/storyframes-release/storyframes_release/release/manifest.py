"""The manifest of a release, every file with its SHA-256; and the check that a release still matches it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from storyframes import FeatureName, FeatureStore
from storyframes.store import CLIPS, StorageError, open_storage, parse_json, sha256_file
from storyframes_release.export.whole_folder import described_files
from storyframes_release.release.ids import KEY, read_key
from storyframes_release.release.settings import ReleaseError

STORE = "features"
"""The feature store in a release."""
MANIFEST = "manifest.json"
FORMAT = 1
_COMPARED = 6_000  # rows of a feature
_OWN_ROWS = 10  # silence has fewer different rows


def write_manifest(folder: Path) -> dict[str, dict[str, int | str]]:
    """Write ``manifest.json`` of all files in a folder; returns its entries."""
    files = described_files(folder)
    content = json.dumps({"format": FORMAT, "files": files}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(content + "\n", encoding="utf-8")
    return files


def verify_release(folder: Path) -> list[str]:
    """The faults of a release, a sentence each; empty where its files are exactly those that were released.

    Raises:
        ReleaseError: the folder is not a release, or its manifest is damaged.
    """
    try:
        manifest = open_storage(folder.absolute()).read(MANIFEST)
        if manifest is None:
            raise ReleaseError(f"{folder} is no release: it has no {MANIFEST}")
        content = parse_json(manifest)
        if content["format"] != FORMAT:
            raise ReleaseError(f"{folder / MANIFEST} is of a newer storyframes: update it")
        files = content["files"]
        listed = {str(path): (int(file["bytes"]), str(file["sha256"])) for path, file in files.items()}
    except (ValueError, StorageError, KeyError, TypeError, AttributeError):
        raise ReleaseError(f"{folder / MANIFEST} is damaged, so nothing can be told of the release") from None
    faults = [f"{path}: is missing" for path in listed if not (folder / path).is_file()]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            faults.append(f"{name}: is a link")
        elif path.is_dir():
            if not any(path.iterdir()) and not any(file.startswith(f"{name}/") for file in listed):
                faults.append(f"{name}: is an empty folder, which does not belong to the release")
        elif not path.is_file():
            faults.append(f"{name}: is no file")  # perhaps a pipe, which cannot be read to its end
        elif name == MANIFEST or name in listed:
            if name in listed and (path.stat().st_size, sha256_file(path)) != listed[name]:
                faults.append(f"{name}: is not as it was released")
        elif KEY.encode() in path.read_bytes():
            faults.append(f"{name}: is the key that leads back to the ids; take it out, and give it to nobody")
        else:
            faults.append(f"{name}: does not belong to the release")
    return faults or sorted(_leaked(folder, {path: digest for path, (_, digest) in listed.items()}))


def withdrawn_sessions(folder: Path, study: Path, key_file: Path | None = None) -> list[str]:
    """The sessions of a release that the study has no longer, or that were forgotten; a sentence each.

    Args:
        key_file: the release's; None takes the one beside it.

    Raises:
        ReleaseError: the key is missing or of another release, so which sessions these are is not known.
        StudyError: the study's tables are not valid.
    """
    from tasks.study import load_study  # needs the pipeline

    key_file = key_file or folder.with_name(f"{folder.name}.key.json")
    if not key_file.is_file():
        raise ReleaseError(
            f"{key_file} is missing: only the key says which sessions of the study these are; give --key"
        )
    old = {new: session for session, new in read_key(key_file).names["sessions"].items()}
    released = FeatureStore(folder / STORE).sessions
    if unknown := [session for session in released if session not in old]:
        raise ReleaseError(f"{key_file} is the key of another release: it has no {unknown[0]}")
    sessions = load_study(study).sessions
    return [
        f"{STORE}/{session}: is {old[session]}, which the study does not have any more: make the release again, and "
        "ask those who have this one to delete it"
        for session in released
        if old[session] not in sessions
    ]


def _leaked(folder: Path, digests: Mapping[str, str]) -> Iterator[str]:
    """Participants and recordings that are in several splits of an intact release.

    A release does not name recordings: two sessions are of one recording if a feature of both has the same values, file
    by file. Values that hardly change prove nothing: silence is the same in every recording, and so is a missing face.
    """
    if f"{STORE}/{CLIPS}" not in digests:
        return
    store = FeatureStore(folder / STORE)
    clips = store.clips()
    for participant, splits in clips.groupby("participant_id")["split"].unique().items():
        if len(splits) > 1:
            yield f"{STORE}/{CLIPS}: the participant {participant} is in the splits {' and '.join(sorted(splits))}"
    split_of = clips.groupby("session_id")["split"].first()
    shards: dict[tuple[str, str], tuple[str, ...]] = {}
    for path, digest in sorted(digests.items()):
        match path.split("/"):
            case [_, session, feature, _, str(array), "c", *_] if array == "values" and session in split_of:
                shards[session, feature] = (*shards.get((session, feature), ()), digest)
    having: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (session, feature), content in shards.items():
        if not FeatureName(feature).is_label_curve:
            having.setdefault((feature, content), []).append(session)
    for (feature, _), sessions in having.items():
        splits = sorted(split_of[sessions].unique())
        if len(splits) > 1 and _has_rows_of_its_own(store, sessions[0], feature):
            yield (
                f"{STORE}: {', '.join(sessions)} are one recording, by the values of {feature!r}, and are in the "
                f"splits {' and '.join(splits)}: its makers have to index their study again, and release it anew"
            )


def _has_rows_of_its_own(store: FeatureStore, session: str, feature: str) -> bool:
    """Whether the first rows have many different measurements."""
    rows = min(_COMPARED, store.describe(session, feature).shape[0])
    values = np.nan_to_num(store.view(session, feature, 0, rows).reshape(rows, -1))
    mask = store.spec(session, feature).mask
    if mask and store.describe(session, feature, mask).shape[0] >= rows:
        values = values[store.view(session, feature, 0, rows, array=mask).astype(bool)]
    return len(np.unique(values, axis=0)) >= _OWN_ROWS
