"""Exports what is known of a study's sessions over time to files of annotation programs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import storyframes
from storyframes import MAIN, FeatureName, FeatureStore
from storyframes.store import CLIPS, SessionTimes, StorageError, StoreError, new_folder
from storyframes_release.annotations.elan import UNIT, write_elan
from storyframes_release.annotations.praat import write_textgrid
from storyframes_release.annotations.tiers import (
    Tier,
    clip_tier,
    label_tiers,
    text_tiers,
    turn_tiers,
    unmeasured_tiers,
)
from storyframes_release.export.formats import ExportError
from storyframes_release.export.whole_folder import Described, refuse_inside, refuse_to_replace, seal
from storyframes_release.study_sessions import StudySessions
from tasks.extractors import speaker_labels
from tasks.study import Label, Study, UnusableFileError, Utterance, load_study, spoken_name

ANNOTATION_WRITERS = {"eaf": (".eaf", write_elan), "textgrid": (".TextGrid", write_textgrid)}
"""By format, the suffix of its files and what writes one."""

Utterances = Callable[[str], Sequence[Utterance]]
"""The utterances of a session's transcript; none where it has no transcript."""


@dataclass
class ExportedAnnotations(Described):
    """The result of an export of annotations.

    Attributes:
        to: eaf or textgrid.
        has_text: whether what is said is in the files.
        tiers: by file, its tiers and their numbers of annotations.
        rounded: by file, how many annotations have a time that is not a whole millisecond, where the format needs it.
        left_out: what is not in the files, and why.
        people: which study the sessions are of.
        files: by path below the folder, size and SHA-256.
    """

    to: str
    has_text: bool
    tiers: dict[str, dict[str, int]] = field(default_factory=dict)
    rounded: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)


def export_annotations(
    store: FeatureStore,
    study: Path,
    target: Path,
    to: str,
    *,
    sessions: Collection[str] = (),
    utterances: Utterances | None = None,
    replace: bool = False,
) -> ExportedAnnotations:
    """Write a file for each session (and each track with labels of its own) into a new folder.

    Times are seconds of the recording: exact to the microsecond in a TextGrid, rounded to milliseconds in an .eaf.

    Args:
        study: its folder; its tables say which sessions and labels there are.
        target: the folder; it appears complete or not at all.
        to: eaf or textgrid.
        sessions: only these; empty for all that the study and the store have.
        utterances: gives what is said; None leaves words, speakers and labels of private schemes out.
        replace: whether an earlier export at ``target`` may be replaced.

    Raises:
        ExportError: nothing can be exported, or ``target`` exists.
        StudyError: the tables are not valid.
        StoreError: a session is unknown or forgotten, or the store is of another study.
        OSError: the folder cannot be written.
    """
    refuse_inside(store, target)
    known, loaded = StudySessions.of_tables(store, study), load_study(study)
    known.refuse(sessions)
    for session_id in sessions:
        if session_id not in store.sessions:
            store.session(session_id)  # raises an error that names the session
    chosen = sorted(known.shared(sessions or store.sessions))
    chosen = [session_id for session_id in chosen if session_id in loaded.sessions]
    if not chosen:
        raise ExportError(f"{store.storage.location} has no session of the study {study.name}")
    done = ExportedAnnotations(to, utterances is not None, people=known.remarks(store.sessions, sessions))
    suffix, write = ANNOTATION_WRITERS[to]
    tiers_of = _SessionTiers(store, loaded, known, utterances, done.left_out)
    with new_folder(target, partial(refuse_to_replace, target, replace=replace)) as folder:
        for session_id in chosen:
            for track, tiers in tiers_of.files(session_id):
                name = f"{session_id}{suffix}" if track == MAIN else f"{session_id}@{track}{suffix}"
                if before := [tier.name for tier in tiers if any(span.start < 0 for span in tier.spans)]:
                    done.left_out.append(f"{name}: annotations before second 0, of {', '.join(before)}")
                tiers = [
                    dataclasses.replace(tier, spans=tuple(span for span in tier.spans if span.start >= 0))
                    for tier in tiers
                ]
                media, reason = _media(loaded, session_id, track, target)
                done.left_out += [f"{name}: {reason}"] if reason else []
                write(folder / name, tiers, media)
                done.tiers[name] = {tier.name: len(tier.spans) for tier in tiers}
                if to == "eaf":
                    done.rounded[name] = sum(
                        bool(span.start % UNIT or span.end % UNIT) for tier in tiers for span in tier.spans
                    )
        seal(folder, _readme(done), done)
    store.note_given("export", target.name, chosen)
    return done


class _SessionTiers:
    """The tiers of the sessions of a study, by track.

    Args:
        utterances: gives what is said; None leaves it out.
        left_out: gets what is not in the tiers, and why.
    """

    def __init__(
        self,
        store: FeatureStore,
        study: Study,
        known: StudySessions,
        utterances: Utterances | None,
        left_out: list[str],
    ) -> None:
        self._store, self._study, self._known = store, study, known
        self._utterances, self._left_out = utterances, left_out
        self._clocks = SessionTimes.stored_clocks(store)
        has_clips = store.storage.read(CLIPS) is not None
        self._clips = dict(iter(store.clips().groupby("session_id"))) if has_clips else {}
        self._labels: dict[str, list[Label]] = {}
        for label in study.labels:
            self._labels.setdefault(label.session_id, []).append(label)
        self._with_forgotten = {session_id for session_id, _ in study.forgotten_ids.tracks}

    def files(self, session_id: str) -> Iterator[tuple[str, list[Tier]]]:
        """The tracks that get a file, each with its tiers: labels of a track are in its own seconds."""
        labels = self._labels.get(session_id, [])
        for track in dict.fromkeys([MAIN, *(label.track for label in labels if label.track)]):
            of_track = [label for label in labels if (label.track or MAIN) == track]
            with_text = self._utterances is not None
            tiers, left_out = label_tiers(of_track, self._study.schemes, with_text=with_text)
            self._left_out += [f"{session_id}: {what}" for what in left_out]
            if track == MAIN:
                tiers += [*self._of_store(session_id), *self._said(session_id)]
            yield track, [tier for tier in tiers if tier.spans]

    def _of_store(self, session_id: str) -> Iterator[Tier]:
        store, times = self._store, SessionTimes(self._store, session_id, self._clocks)
        try:
            yield from turn_tiers(store, session_id, times)
            if session_id in self._clips:
                yield clip_tier(self._clips[session_id])
            stored = (
                FeatureName.of_track(feature, track)
                for track in store.tracks(session_id)
                for feature in store.features(session_id, track)
            )
            shared = [name for name in stored if self._known.may_share_feature(session_id, name)]
            yield from unmeasured_tiers(store, session_id, times, shared)
        except (StoreError, StorageError) as error:
            self._left_out.append(f"{session_id}: {error}")

    def _said(self, session_id: str) -> Iterator[Tier]:
        if self._utterances is None:
            return
        tracks = self._study.tracks[session_id].items()
        if others := [name for name, files in tracks if files.transcript and name != MAIN]:
            self._left_out.append(f"{session_id}: the transcripts of the tracks {', '.join(others)}")
        if session_id in self._with_forgotten:
            self._left_out.append(f"{session_id}: words, because a person of the session was forgotten")
            return
        said = self._utterances(session_id)
        yield from text_tiers(said, _speakers(self._study, session_id, said))


def _speakers(study: Study, session_id: str, said: Sequence[Utterance]) -> dict[str, str]:
    """What each speaker is called: what the store calls the speaker, never a name."""
    pseudonyms = {spoken_name(utterance.speaker): utterance.speaker for utterance in said if utterance.is_pseudonym}
    spoken = [utterance.speaker for utterance in said]
    numbers, labels = speaker_labels(spoken, {**pseudonyms, **study.speakers.get(session_id, {})})
    return {speaker: labels[number] for speaker, number in zip(spoken, numbers, strict=True)}


def _media(study: Study, session_id: str, track: str, target: Path) -> tuple[str, str]:
    """The track's recording, relative to the folder of the export, or why it has none."""
    files = study.tracks[session_id][track]
    of_picture = study.tracks[session_id][files.of] if files.of else files
    path = of_picture.video or of_picture.audio
    if path is None:
        return "", ""
    try:
        recording = study.path(path)
    except UnusableFileError as error:  # annotations are there without it
        return "", f"the link to its recording: {error}"
    if not recording.is_relative_to(study.root):
        return "", f"the link to its recording {path}: it would say where the folder of [recording] root is"
    if not recording.is_file():
        return "", f"the link to its recording {path}: it is several files, whose seconds go on from one to the next"
    return Path(os.path.relpath(recording.absolute(), target.absolute())).as_posix(), ""


def _readme(done: ExportedAnnotations) -> str:
    opened = {
        "eaf": "ELAN opens them, with the recording if it is where it was. ELAN counts whole milliseconds: "
        f"{sum(done.rounded.values())} annotations have times that were rounded, and a moment lasts 1 ms.",
        "textgrid": "Praat opens them: 'Read from file', with the recording beside it. Times are exact to the "
        "microsecond. A TextGrid does not name its recording; its file name is the session.",
    }
    lines = [
        "# Annotations",
        "",
        f"{len(done.tiers)} files, exported by storyframes {storyframes.__version__}: labels, turns, clips and "
        f"stretches without a measurement{', words and speakers' if done.has_text else ''}, a tier for each.",
        opened[done.to],
        "Annotations that overlap are in further tiers, NAME (2); moments are in NAME (moments).",
        "They are about persons: keep them as private as the recordings.",
        "",
        *(f"{line}\n" for line in done.people),
        *(f"Left out: {line}\n" for line in done.left_out),
        "`storyframes import labels FILE... --to STUDY` reads labels again.",
        "`export.json` has the tiers, and the size and SHA-256 of every file.",
    ]
    return "\n".join(lines) + "\n"
