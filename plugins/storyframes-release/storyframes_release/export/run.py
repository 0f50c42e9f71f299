"""Exports a feature store to a folder of files that other programs open."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from storyframes import MAIN, STORIES, AddressError, Axis, FeatureName, FeatureStore
from storyframes.store import CLIPS, Pooling, SessionTimes, StorageError, StoreError, Table, new_folder, why_no_session
from storyframes_release.export.bids_files import BidsNames, arrange_bids
from storyframes_release.export.formats import ExportError, Format, Write, check_pooling, writer
from storyframes_release.export.readme import Exported, readme
from storyframes_release.export.whole_folder import README, refuse_inside, refuse_to_replace, seal
from storyframes_release.study_sessions import StudySessions, study_sessions

Progress = Callable[[str, int, int], None]
"""Called with the next ``session/feature``, its number and how many there are."""


def export(
    store: FeatureStore,
    target: Path,
    to: str,
    *,
    sessions: Sequence[str] = (),
    features: Sequence[str] = (),
    rate: float | None = None,
    per: Axis | str | None = None,
    functionals: Sequence[str] = Pooling.MEAN,
    replace: bool = False,
    progress: Progress = lambda *_: None,
    known: StudySessions | None = None,
) -> Exported:
    """Write features into a new folder, with a README that says what each file is.

    Values are those of the store; missing ones are NaN, and the column ``mask`` says which rows are measurements. A
    feature that cannot be read is left out and named; the others are exported.

    Args:
        target: the folder; it appears complete or not at all.
        sessions: the sessions (``stories`` are the story texts); empty for all.
        features: names of features or of parts of them (``openface.gaze``, ``vision``), of every track
            (``<feature>@<track>``: of one); empty for all features.
        to: one of :class:`Format`, or a plug-in's.
        rate: points a second of a grid that begins with each session; None takes the rows as stored.
        per: a row for each word or utterance: frames and sound are pooled over each (:mod:`storyframes.pooling`).
        functionals: what is computed then, of mean, std and max.
        replace: whether an earlier export at ``target`` may be replaced.
        progress: called before each feature.
        known: which sessions the study has; None takes the store's record of the study. Another session is exported
            only where ``sessions`` names it, with a caveat in the README.

    Raises:
        ExportError: nothing can be exported, ``target`` exists, or a package is missing.
        StoreError: a session or feature is unknown, or forgotten; or the record of the study is older than the
            catalogue.
        OSError: the folder cannot be written.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise ExportError(f"--rate {rate:g}: give more than 0 rows a second")
    over = check_pooling(per, functionals)
    if over and rate is not None:
        raise ExportError(f"--per {over}: not together with --rate")
    refuse_inside(store, target)
    write = writer(to)
    known = known or study_sessions(store, None)
    known.refuse(sessions)
    with_stories = rate is None and over is None and to != Format.BIDS
    chosen = chosen_features(store, sessions, features, known, with_stories=with_stories)
    bids_names = BidsNames(chosen, known) if to == Format.BIDS else None
    done = Exported(to, rate, over, list(functionals) if over else [], _splits(store) if to == Format.DATASETS else {})
    done.people = known.remarks(store.sessions, sessions)
    if gone := sum(not known.may_share_feature(of, name) for of in chosen for name in _features(store, of)):
        done.people.append(f"Left out, as the study does not have their tracks: features of other tracks, {gone}.")
    with new_folder(target, partial(refuse_to_replace, target, replace=replace)) as folder:
        clocks, number, count = SessionTimes.stored_clocks(store), 0, sum(map(len, chosen.values()))
        for session_id, names in chosen.items():
            if reason := _why_no_folder(session_id, list(chosen)):
                done.left_out += [{"session_id": session_id, "feature": name, "reason": reason} for name, _ in names]
                continue
            times = SessionTimes(store, session_id, clocks)
            for feature, part in names:
                number += 1
                progress(f"{session_id}/{feature}", number, count)
                _export(store, session_id, feature, part, folder, done, write, times)
        if not done.tables:
            reasons = "; ".join(dict.fromkeys(omission["reason"] for omission in done.left_out))
            raise ExportError(f"nothing could be exported: {reasons}")
        if bids_names is not None:
            arrange_bids(folder, done, bids_names)
        seal(folder, readme(done), done)
    store.note_given("export", target.name, {table["session_id"] for table in done.tables} - {STORIES})
    return done


def _splits(store: FeatureStore) -> dict[str, str]:
    """The split of each session that has clips."""
    if store.storage.read(CLIPS) is None:
        return {}
    clips = store.clips().drop_duplicates("session_id")
    return dict(zip(clips["session_id"], clips["split"].astype(str), strict=True))


def chosen_features(
    store: FeatureStore,
    sessions: Sequence[str],
    features: Sequence[str],
    known: StudySessions,
    *,
    with_stories: bool,
) -> dict[str, list[tuple[str, str]]]:
    """The requested features of each session, as the store calls them, each with the part that is asked for."""
    stored = {*store.sessions, *([STORIES] if store.tracks(STORIES) else [])}
    for session_id in sessions:
        if session_id not in stored:
            store.session(session_id)  # raises an error that names the session
    every = {*known.shared(store.sessions), *([STORIES] if with_stories and STORIES in stored else [])}
    names = {
        session_id: [name for name in _features(store, session_id) if known.may_share_feature(session_id, name)]
        for session_id in sessions or sorted(every)
    }
    chosen = {session_id: [] if features else [(name, "") for name in own] for session_id, own in names.items()}
    for requested in features:
        problem, selected = "", 0
        feature, of = FeatureName(requested).feature, FeatureName(requested).track
        for session_id, own in names.items():
            for track in store.tracks(session_id) if of == MAIN else [of]:
                try:
                    located = store.locate(session_id, FeatureName.of_track(feature, track))
                    matches = [(name, part.name) for name, part in located if name in own]
                    selected += len(matches)
                except StoreError as error:  # a feature without the part, or that cannot be read, is left out and named
                    kind, _, part_name = feature.partition(".")
                    matches = [(name, part_name) for name in own if name == FeatureName.of_track(kind, track)]
                    problem = str(error)
                    selected += 0 if isinstance(error, AddressError) else len(matches)
                chosen[session_id] += [match for match in matches if match not in chosen[session_id]]
        if not selected:
            stored_names = FeatureName.in_order({name for of_session in names.values() for name in of_session})
            where = "the sessions that are asked for have" if sessions else "the store has"
            absent = f"there is no feature {requested!r}; {where} {', '.join(stored_names) or 'none'}"
            raise ExportError(problem if "." in requested else absent)
    for session_id, selections in chosen.items():
        own = names[session_id]
        selections.sort(key=lambda selection: own.index(selection[0]))
    if not any(chosen.values()):
        raise ExportError(f"{store.storage.location} has no feature to export")
    return chosen


def _why_no_folder(session_id: str, exported: Sequence[str]) -> str:
    """Why a session has no folder of its name, on any system that the export may be copied to; empty where it has."""
    if session_id.lower() == README.lower():
        return f"the folder of a session of this name would be where the export's {README} is: rename the session"
    first = next(name for name in exported if name.lower() == session_id.lower())
    if first != session_id:
        return f"Windows and macOS take its folder for that of {first}: export it alone, with --session {session_id}"
    return "" if session_id == STORIES else why_no_session(session_id)


def _features(store: FeatureStore, session_id: str) -> list[str]:
    tracks = store.tracks(session_id)
    return [
        FeatureName.of_track(name, track)
        for track in tracks
        for name in FeatureName.in_order(store.features(session_id, track))
    ]


def _export(
    store: FeatureStore,
    session_id: str,
    feature: str,
    part: str,
    folder: Path,
    done: Exported,
    write: Write,
    times: SessionTimes,
) -> None:
    try:
        if done.per is None:
            tables = store.feature_tables(session_id, feature, part=part, rate=done.rate, times=times)
        else:
            tables = Pooling(done.per, tuple(done.functionals)).tables(store, session_id, feature, times, part=part)
    except (StoreError, StorageError) as error:
        done.left_out.append({"session_id": session_id, "feature": feature, "reason": str(error)})
        return
    of_session = folder / session_id
    of_session.mkdir(exist_ok=True)
    for table in tables:
        made = folder / f".{session_id}"
        made.mkdir()
        try:
            write(table, made / table.name)
            files = [path for path in sorted(made.rglob("*")) if path.is_file()]
            written = [f"{session_id}/{path.relative_to(made).as_posix()}" for path in files]
            about = _about(store, table, written)
        except (StoreError, StorageError) as error:
            done.left_out.append({"session_id": session_id, "feature": table.name, "reason": str(error)})
            shutil.rmtree(made)
            continue
        for path in made.iterdir():
            path.rename(of_session / path.name)
        made.rmdir()
        done.tables.append(about)
    if not any(of_session.iterdir()):
        of_session.rmdir()


def _about(store: FeatureStore, table: Table, files: list[str]) -> dict[str, Any]:
    """The entry of a table in ``export.json``."""
    rows = store.catalogue
    (row,) = rows[(rows["session_id"] == table.session_id) & (rows["feature"] == table.feature)].to_dict("records")
    return {
        "session_id": table.session_id,
        "feature": table.feature,
        "track": FeatureName(table.feature).track,
        "row": str(table.axis),
        "rows": table.rows,
        "files": files,
        "about": str(table.attributes.get("about", "")),
        "caveats": table.caveats,
        "version": row["version"],
        "fingerprint": row["fingerprint"],
        "keys": [key._asdict() for key in table.keys],
        "arrays": {
            name: {
                "shape": [table.rows, *spec.shape],
                "dims": ["point" if table.rate else str(table.axis), *spec.dims],
                "dtype": "float32" if spec.dtype == "float16" else spec.dtype,
                "units": spec.units,
                "about": spec.about,
                "missing": "NaN" if spec.dtype.startswith("float") else spec.fill,
            }
            for name, spec in table.arrays.items()
        },
        "columns": [column.name for column in table.columns],
    }
