"""Features that other programs made, taken into a feature store: each session's rows in a file become a version.

Values are stored as float32, with the file's own times, or one row for each frame. Nothing is published unless
everything can be. What a version is of is the digest of its file; neither its name nor its path nor an id in it is
stored, because they may name a person.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

import storyframes
from storyframes import (
    CLOCK,
    FEATURES,
    SOUND_FITS_S,
    FeatureName,
    FeatureSpec,
    FeatureStore,
    last_frame_end_s,
    spoken_rows,
    ticks,
)
from storyframes.store import Caveat, FeatureWriter, SessionTimes, compact, is_intact, sha256_file
from storyframes_adopt.adopted_files import MAY_LACK, MAY_LACK_S, MEASURED, TIME_UNITS, AdoptError, Adoption, Rows
from storyframes_adopt.adopted_sequences import Source, holds_many
from storyframes_adopt.recipes import RECIPES, read_by_recipe

_ROUNDING = 1000  # ticks by which times may differ, as a container that counts milliseconds rounds them
VERSION = 1
"""Of this code; raised when it would give other values of the same file."""


class Change(StrEnum):
    """What adopting a file does to the store."""

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "up to date"


@dataclass(frozen=True)
class Adopted:
    """Rows that are, or would be, a version.

    Attributes:
        content: what makes them other rows than those of other sessions: the SHA-256 of the file, or of the rows where
            the file has many sessions.
        measured: the share of the rows that are measurements.
        first_s, last_s: times of the first and last row; None of a row for each frame.
    """

    session_id: str
    source: Source
    content: str
    change: Change
    rows: int
    spec: FeatureSpec
    measured: float
    first_s: float | None
    last_s: float | None


def adopt(
    store: FeatureStore,
    sources: Mapping[str, Source],
    how: Adoption,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Adopted]:
    """Publish one feature of some sessions from files; nothing is published unless all of it can be.

    Args:
        sources: by session, its file, or where its rows are in a file of many.
        force: also replace versions that were adopted from the same file.
        dry_run: read and check everything, and publish nothing.
        progress: called with (session_id, number, how many) before the rows of each are read.

    Raises:
        AdoptError: files that cannot be adopted, all of them named; or the options do not fit each other.
        StorageError: the store cannot be read or written.
        OSError: a file cannot be read.
    """
    _check(how, sources)
    looked_at, problems = [], []
    for number, (session_id, source) in enumerate(sources.items(), start=1):
        progress(session_id, number, len(sources))
        try:
            looked_at.append(_look_at(store, session_id, source, how, force=force))
        except AdoptError as error:
            problems.append(f"{source.file.name}: {error}")
    if not problems:
        problems += _differences(store, looked_at, how)
    if problems:
        raise AdoptError("\n".join(problems))
    if dry_run:
        return looked_at
    for adopted in looked_at:
        if adopted.change is not Change.UNCHANGED:
            _publish(store, adopted, how)
    compact(store.storage, [(adopted.session_id, FeatureName.of_track(how.name, how.track)) for adopted in looked_at])
    return looked_at


def _check(how: Adoption, sources: Mapping[str, Source]) -> None:
    if how.name in FEATURES or not FeatureName(how.name).is_allowed:
        raise AdoptError(
            f"--name {how.name}: is a feature of storyframes, or cannot be one's name: lower-case letters, digits and "
            "'_', at most 64, a letter first, and no word with a meaning of its own"
        )
    if how.recipe and how.recipe not in RECIPES:
        raise AdoptError(f"--recipe {how.recipe}: there are {', '.join(RECIPES)}")
    if how.recipe and (how.columns or how.mask or how.time or how.rate or how.array):
        raise AdoptError(f"--recipe {how.recipe} says the columns, times and mask: give no option for them")
    ways = (how.time != "") + (how.rate is not None) + how.per_frame
    are_of_many = any(holds_many(source.file) for source in sources.values())
    if ways > 1 or (not ways and not are_of_many) or (how.time and are_of_many):
        raise AdoptError("say when rows are, by one of --time COLUMN, --rate HZ and --per-frame")
    if how.unit and (how.unit not in TIME_UNITS or not (how.time or (are_of_many and how.rate is None))):
        raise AdoptError(f"--time-unit {how.unit}: is of --time COLUMN, and one of {', '.join(TIME_UNITS)}")
    if how.array and not are_of_many:
        raise AdoptError("--array is of pickles of MMSA's layout")


def _look_at(store: FeatureStore, session_id: str, source: Source, how: Adoption, *, force: bool) -> Adopted:
    source.file.stat()  # a name that is mistyped is no session's
    if session_id not in store.sessions:
        raise AdoptError(f"the store has no session {session_id!r}: extract its frames first, or say --session-from")
    sha256 = source.digest.sha256
    rows = _read(store, session_id, source, how)
    content = _content(rows) if source.pieces else sha256
    spec = how.spec(rows)
    _check_times(store, session_id, rows, how, is_of_pieces=bool(source.pieces))
    status = store.read_status(session_id, FeatureName.of_track(how.name, how.track))
    current = status.record if status else None
    change = Change.REPLACED if current else Change.NEW
    if current:
        made_of = current.provenance.get("adopted")
        if not isinstance(made_of, dict):
            raise AdoptError(f"{session_id}/{current.feature} was extracted, not adopted: choose another --name")
        if made_of.get("sha256") == sha256 and not force and is_intact(store.storage, current):
            if current.fingerprint != _fingerprint(content, how):
                raise AdoptError(f"{session_id}/{current.feature} is of this file in another way: add --force")
            change = Change.UNCHANGED
    first, last = (float(rows.time[0]), float(rows.time[-1])) if rows.time is not None else (None, None)
    share = float(rows.mask.mean()) if len(rows.mask) else 0.0
    return Adopted(session_id, source, content, change, len(rows.values), spec, share, first, last)


def _read(store: FeatureStore, session_id: str, source: Source, how: Adoption) -> Rows:
    """The rows; where these have intervals and there is to be one for each frame, those during which it is shown."""
    clock = FeatureName.of_track(CLOCK, how.track)
    if how.recipe:
        if not store.has(session_id, clock):
            raise AdoptError(f"nothing in the store says when the frames of {session_id} are: extract them first")
        return read_by_recipe(source.file, how, np.asarray(store.view(session_id, clock, array="time")))
    rows = source.read(how)
    if not how.per_frame or rows.time is None or rows.end is None:
        return rows
    if not store.has(session_id, clock):
        raise AdoptError(f"nothing in the store says when the frames of {session_id} are: extract them first")
    _check_times(store, session_id, rows, how, is_of_pieces=True)
    frames = np.asarray(store.view(session_id, clock, array="time"))
    at_frames = spoken_rows(ticks(rows.time), ticks(rows.end), ticks(frames))
    has_row = at_frames >= 0
    values = np.where(has_row[:, None], rows.values[at_frames], np.float32(np.nan))
    return Rows(rows.columns, values, None, np.where(has_row, rows.mask[at_frames], 0).astype(np.uint8))


def _content(rows: Rows) -> str:
    parts = (part for part in (rows.values, rows.time, rows.mask, rows.end) if part is not None)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def _differences(store: FeatureStore, looked_at: Sequence[Adopted], how: Adoption) -> Iterator[str]:
    """Sessions whose columns would not be those of the first file: no clips could be read of both."""
    if not looked_at:
        return
    spec, feature = looked_at[0].spec, FeatureName.of_track(how.name, how.track)
    for adopted in looked_at[1:]:
        if adopted.spec.columns != spec.columns:
            yield f"{_named(adopted)}: has other columns than {_named(looked_at[0])}: say --columns"
    of_files: dict[str, str] = {}  # by digest, the session
    these = {adopted.session_id for adopted in looked_at}
    others = [name for name in store.sessions if name not in these and store.has(name, feature)]
    for session_id, other in store.specs(others, feature).items():
        if other.arrays != spec.arrays:
            yield f"{session_id}/{feature} has other columns or rows: adopt all sessions alike, or say another --name"
        made_of = store.attributes(session_id, feature).get("provenance", {}).get("adopted")
        of_files[str(made_of.get("rows", made_of["sha256"])) if isinstance(made_of, dict) else ""] = session_id
    for adopted in looked_at:
        session_id = of_files.setdefault(adopted.content, adopted.session_id)
        if session_id != adopted.session_id and adopted.measured:
            same = "has the very rows" if adopted.source.pieces else "is the very file"
            yield f"{_named(adopted)}: {same} of {session_id}: each session has values of its own"


def _named(adopted: Adopted) -> str:
    return f"{adopted.source.file.name}{f', {adopted.session_id}' if adopted.source.pieces else ''}"


def _publish(store: FeatureStore, adopted: Adopted, how: Adoption) -> None:
    source = adopted.source
    rows = _read(store, adopted.session_id, source, how)
    if (_content(rows) if source.pieces else sha256_file(source.file)) != adopted.content:
        raise AdoptError(f"{source.file.name}: changed while it was being read: adopt it again")
    with FeatureWriter(store.storage, adopted.session_id, adopted.spec, track=how.track) as out:
        out.caveat(Caveat.MADE_ELSEWHERE)
        out.write("values", rows.values)
        for name, times in (("time", rows.time), ("end", rows.end)):
            if times is not None:
                out.write(name, times)
        out.write(MEASURED, rows.mask)
        made_of = {"sha256": source.digest.sha256, "bytes": source.file.stat().st_size, "version": VERSION}
        out.publish(
            _fingerprint(adopted.content, how),
            {
                "adopted": made_of | ({"rows": adopted.content} if source.pieces else {}),
                "settings": _settings(how),
                "code": f"storyframes {storyframes.__version__}",
            },
        )


def _settings(how: Adoption) -> dict[str, Any]:
    settings = asdict(how) | {"columns": list(how.columns)}
    return {name: value for name, value in settings.items() if value or name not in ("unit", "array", "recipe")}


def _fingerprint(of: str, how: Adoption) -> str:
    content = {"adopted": of, "extractor": VERSION, "settings": _settings(how)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_times(
    store: FeatureStore, session_id: str, rows: Rows, how: Adoption, *, is_of_pieces: bool = False
) -> None:
    """Refuse rows that are not of this recording.

    Args:
        is_of_pieces: the rows need not go on to its end.
    """
    clock = FeatureName.of_track(CLOCK, how.track)
    has_frames = store.has(session_id, clock)
    if rows.time is None:
        frames = store.describe(session_id, clock, "time").shape[0] if has_frames else 0
        if len(rows.values) != frames:
            raise AdoptError(f"has {len(rows.values)} rows, but {session_id} has {frames} frames: say --time or --rate")
        return
    if wrong := np.flatnonzero(~np.isfinite(rows.time)).tolist():
        raise AdoptError(f"row {wrong[0] + 1}: has no time")
    if wrong := np.flatnonzero(np.diff(rows.time) <= 0).tolist():
        before, after = rows.time[wrong[0]], rows.time[wrong[0] + 1]
        raise AdoptError(f"row {wrong[0] + 2}: is at {after:g} s, after a row at {before:g} s: times have to increase")
    if rows.end is not None and not how.per_frame:
        overlaps = np.flatnonzero(ticks(rows.end[:-1]) > ticks(rows.time[1:]) + _ROUNDING).tolist()
        if overlaps:
            raise AdoptError(
                f"row {overlaps[0] + 1}: ends at {rows.end[overlaps[0]]:g} s, and the next row is at "
                f"{rows.time[overlaps[0] + 1]:g} s: of intervals that overlap, say --per-frame, by which a frame has "
                "the row that began last"
            )
    end = _end_s(store, session_id, how)
    latest = rows.time if rows.end is None else rows.end
    if wrong := np.flatnonzero((rows.time < 0) | (latest > end + SOUND_FITS_S)).tolist():
        at = rows.time[wrong[0]] if rows.time[wrong[0]] < 0 else latest[wrong[0]]
        raise AdoptError(
            f"row {wrong[0] + 1}: is at {at:g} s, outside of the recording of {session_id}, which ends at "
            f"{end:.2f} s: times are in seconds since its first frame{_likely_unit(rows.time, end, how)}"
        )
    if not how.unit and (guess := _likely_unit(rows.time, end, how)):
        raise AdoptError(
            f"its last row is at {rows.time[-1]:g}, and the recording of {session_id} ends at {end:.2f} s{guess}; "
            "--time-unit s, where they are seconds"
        )
    if (
        how.rate is not None
        and not is_of_pieces
        and end - (rows_end := len(rows.time) / how.rate) > max(MAY_LACK_S, MAY_LACK * end)
    ):
        raise AdoptError(
            f"{len(rows.time)} rows at {how.rate:g} a second end at {rows_end:.2f} s, and the recording of "
            f"{session_id} at {end:.2f} s: is --rate {len(rows.time) / end:.4g} meant? Of a part, give --time"
        )


def _likely_unit(time: np.ndarray, end_s: float, how: Adoption) -> str:
    """A question about the unit of times that are hardly seconds; empty where they may be.

    Args:
        time: (n,) increasing; as the file has them where no unit is given.
    """
    if how.unit or how.rate is not None or time[-1] <= 0:
        return ""
    ends = {unit: float(time[-1]) * seconds / units for unit, (seconds, units) in TIME_UNITS.items()}
    within = {unit: end for unit, end in ends.items() if end <= end_s + SOUND_FITS_S}
    nearest = max(within, key=lambda unit: within[unit], default="s")
    counts = len(time) > 2 and bool((np.diff(time) == 1).all())
    ends_early = end_s - ends["s"] > max(MAY_LACK_S, MAY_LACK * end_s)
    if counts and (ends_early or nearest != "s"):
        return ": are they numbers of frames? Divide them by the rate, or say --per-frame where every frame has a row"
    return f": are they in {nearest}? Say --time-unit {nearest}" if nearest != "s" else ""


def _end_s(store: FeatureStore, session_id: str, how: Adoption) -> float:
    """When the track ends by its own clock: with its last frame, or without a video the last row of what it has."""
    clock = FeatureName.of_track(CLOCK, how.track)
    if store.has(session_id, clock):
        return last_frame_end_s(np.asarray(store.view(session_id, clock, array="time")))
    times, ends = SessionTimes(store, session_id), [0.0]
    for feature in store.features(session_id, how.track):
        if feature != how.name:
            name = FeatureName.of_track(feature, how.track)
            for axis in {array.axis for array in store.spec(session_id, name).arrays.values()}:
                ends += [float(of_axis.max()) for of_axis in times.of_rows(name, axis).values() if len(of_axis)]
    if not max(ends):
        raise AdoptError(f"nothing in the store says how long {session_id}, {how.track} is: extract its frames first")
    return max(ends)
