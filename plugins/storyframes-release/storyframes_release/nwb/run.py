"""Exports the sessions of a study as NWB files, one for each session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import storyframes
from storyframes import CLOCK, MAIN, FeatureName, FeatureStore, install_line, ticks
from storyframes.store import CLIPS, SessionTimes, StorageError, StoreError, new_folder, why_no_session
from storyframes_release.annotations.tiers import Span, Tier, clip_tier, label_tiers, turn_tiers
from storyframes_release.export.formats import ExportError
from storyframes_release.export.run import chosen_features
from storyframes_release.export.whole_folder import Described, refuse_inside, refuse_to_replace, seal
from storyframes_release.nwb.session_file import SessionFile, about_start, why_left_out
from storyframes_release.study_sessions import StudySessions
from tasks.study import Label, Study, load_study

_NEEDED = ("pynwb", "ndx_pose")
_ABOUT = {
    "labels": "labels of the study with times; an annotation may overlap another",
    "turns": "who has the floor",
    "clips": "the windows of the clip index: phase and number of the first frame",
}


@dataclass
class ExportedNwb(Described):
    """The result of an export to NWB.

    Attributes:
        sessions: by file, its tables and their numbers of rows.
        starts: by file, what its start time is.
        left_out: what the files do not have, and why.
        unreadable: what could not be read, and why.
        people: which study the sessions are of.
        files: by path below the folder, size and SHA-256.
    """

    to: str = "nwb"
    sessions: dict[str, dict[str, int]] = field(default_factory=dict)
    starts: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)


def export_nwb(
    store: FeatureStore,
    study: Path,
    target: Path,
    *,
    sessions: Sequence[str] = (),
    features: Sequence[str] = (),
    replace: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ExportedNwb:
    """Write a file for each session into a new folder.

    Args:
        study: its folder; its tables say which sessions, participants, start times and labels there are.
        target: the folder; it appears complete or not at all.
        sessions: only these; empty for all that the study and the store have.
        features: as of :func:`storyframes_release.export.run.export`.
        replace: whether an earlier export at ``target`` may be replaced.
        progress: called with the next session, its number and how many there are.

    Raises:
        ExportError: nothing can be exported, ``target`` exists, or a package is missing.
        StudyError: the tables are not valid.
        StoreError: a session or feature is unknown or forgotten, or the store is of another study.
        OSError: the folder cannot be written.
    """
    if not all(map(find_spec, _NEEDED)):
        raise ExportError(f"--format nwb needs pynwb and ndx-pose: {install_line('nwb', 'storyframes-release')}")
    refuse_inside(store, target)
    known, loaded = StudySessions.of_tables(store, study), load_study(study)
    known.refuse(sessions)
    for session_id in sessions:
        if session_id in store.sessions and session_id not in loaded.sessions:
            raise ExportError(f"--session {session_id}: the study {study.name} does not have it")
    chosen = chosen_features(store, sessions, features, known, with_stories=False)
    done = ExportedNwb(people=known.remarks(store.sessions, sessions))
    contents = _Contents(store, loaded, done)
    with new_folder(target, partial(refuse_to_replace, target, replace=replace)) as folder:
        for number, (session_id, names) in enumerate(chosen.items(), start=1):
            progress(session_id, number, len(chosen))
            if reason := why_no_session(session_id):
                done.left_out.append(f"{session_id}: {reason}")
                continue
            path = folder / f"{session_id}.nwb"
            if rows := contents.write(path, session_id, names):
                done.sessions[path.name] = rows
                done.starts[path.name] = about_start(loaded.sessions[session_id].recorded_at)
        if not done.sessions:
            raise ExportError(
                f"nothing could be exported: {'; '.join(dict.fromkeys([*done.unreadable, *done.left_out]))}"
            )
        seal(folder, _readme(done), done)
    store.note_given("export", target.name, [name.removesuffix(".nwb") for name in done.sessions])
    return done


class _Contents:
    """The contents of the files of a study.

    Args:
        done: gets what is not in the files, and why.
    """

    def __init__(self, store: FeatureStore, study: Study, done: ExportedNwb) -> None:
        self._store, self._study, self._done = store, study, done
        self._clocks = SessionTimes.stored_clocks(store)
        has_clips = store.storage.read(CLIPS) is not None
        self._clips = dict(iter(store.clips().groupby("session_id"))) if has_clips else {}
        self._labels: dict[str, list[Label]] = {}
        for label in study.labels:
            self._labels.setdefault(label.session_id, []).append(label)

    def write(self, path: Path, session_id: str, names: Sequence[tuple[str, str]]) -> dict[str, int]:
        """Write the file of a session with these features (each with the part that is asked for) and its annotations.

        A table that cannot be read is left out, and the file is begun again.

        Returns:
            the tables of the file and their numbers of rows; empty where there is none.
        """
        unreadable: dict[str, str] = {}
        while True:
            about, left_out = self._study.sessions[session_id], []
            file = SessionFile(session_id, about.participant_id, about.recorded_at)
            times = SessionTimes(self._store, session_id, self._clocks)
            for feature, part in names:
                try:
                    for table in self._store.feature_tables(session_id, feature, part=part, times=times):
                        if table.name in unreadable:
                            continue
                        if reason := why_left_out(table):
                            left_out.append(f"{session_id}/{table.name}: {reason}")
                        else:
                            file.add_table(table)
                except (StoreError, StorageError) as error:
                    unreadable[feature] = str(error)
            left_out += self._add_annotations(file, session_id, times)
            failed = file.write(path) if file.rows else None
            if failed is None:
                if not file.rows:
                    path.unlink(missing_ok=True)  # an earlier attempt's, whose series have no values
                self._done.left_out += left_out
                self._done.unreadable += [f"{session_id}/{name}: {reason}" for name, reason in unreadable.items()]
                return file.rows
            unreadable |= [failed]

    def _add_annotations(self, file: SessionFile, session_id: str, times: SessionTimes) -> list[str]:
        left_out: list[str] = []
        file.add_tiers("annotations.labels", _ABOUT["labels"], self._label_tiers(session_id, times, left_out))
        try:
            file.add_tiers("annotations.turns", _ABOUT["turns"], turn_tiers(self._store, session_id, times))
        except (StoreError, StorageError) as error:
            left_out.append(f"{session_id}: turns: {error}")
        if session_id in self._clips:
            file.add_tiers("annotations.clips", _ABOUT["clips"], [clip_tier(self._clips[session_id])])
        return left_out

    def _label_tiers(self, session_id: str, times: SessionTimes, left_out: list[str]) -> Iterator[Tier]:
        """Labels in the session's seconds: those of a track are on its own clock."""
        labels = self._labels.get(session_id, [])
        for track in dict.fromkeys(label.track or MAIN for label in labels):
            of_track = [label for label in labels if (label.track or MAIN) == track]
            tiers, reasons = label_tiers(of_track, self._study.schemes, with_text=False, about_private="never in NWB")
            clock = times.clock(FeatureName.of_track(CLOCK, track))
            if clock is None:
                left_out.append(f"{session_id}: {len(of_track)} labels of the track {track}, whose clock is not known")
                continue
            left_out += [f"{session_id}: {reason}" for reason in reasons]
            for tier in tiers:
                seconds = np.array([(span.start, span.end) for span in tier.spans]) / 1e6
                on_session = ticks(clock.to_session(session_id, seconds)).tolist()
                spans = [Span(start, end, span.text) for (start, end), span in zip(on_session, tier.spans, strict=True)]
                yield replace(tier, spans=tuple(spans))


def _readme(done: ExportedNwb) -> str:
    lines = [
        "# NWB files",
        "",
        f"{len(done.sessions)} sessions, exported by storyframes {storyframes.__version__}, a file for each. "
        "They are measurements of persons: keep them as private as the recordings.",
        "",
        "`pynwb.NWBHDF5IO(file, 'r').read().processing['behavior']` has the series, poses (`ndx-pose`) and, in",
        "`NAME.columns`, the names and units of columns; `intervals` has labels, turns, clips and what lasts.",
        "Values are those of the feature store; rows that are not measurements are NaN.",
        "",
        *(f"{line}\n" for line in done.people),
        *(f"{file}: {about}\n" for file, about in done.starts.items()),
        *(f"Left out: {line}\n" for line in [*done.unreadable, *done.left_out]),
        "`export.json` has the tables and their rows, and the size and SHA-256 of every file.",
    ]
    return "\n".join(lines) + "\n"
