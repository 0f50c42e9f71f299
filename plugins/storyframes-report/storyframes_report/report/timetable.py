"""The phases, windows, labels and utterances of a session, from the study's tables and the clip index; and the table
behind its timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from storyframes import MAIN, Clock
from storyframes_report.devices import Device
from storyframes_report.report.label_facts import value_text
from tasks.extractors import speaker_labels
from tasks.inspect import SessionCurves, counted
from tasks.study import (
    CurveSamples,
    Scheme,
    SchemeType,
    Study,
    UnusableFileError,
    Word,
    read_transcript,
)


@dataclass(frozen=True)
class Window:
    """One window with its labels; seconds and frames, stop exclusive."""

    phase: str
    start_s: float
    stop_s: float
    start_frame: int
    stop_frame: int
    split: str
    labels: tuple[tuple[str, str], ...]  # column and value; where values are about stories, one for each story
    face_tracked: float | None
    words: int | None
    track: str = MAIN  # whose frames these are
    has_frames: bool = True  # whether there are any: a session without a video has none

    @property
    def frames(self) -> str:
        if not self.has_frames:
            return "none"
        whose = "" if self.track == MAIN else f" of {self.track}"
        return f"{self.start_frame} to {self.stop_frame}{whose}"

    @property
    def about(self) -> list[tuple[str, str]]:
        """Names and values of everything, for a person."""
        lines = [
            ("phase", self.phase),
            ("time", f"{self.start_s:.2f} s to {self.stop_s:.2f} s"),
            ("frames", self.frames),
            ("split", self.split),
            *self.labels,
        ]
        if self.face_tracked is not None:
            lines.append(("face tracked", f"{self.face_tracked:.1%}"))
        if self.words is not None:
            lines.append(("words", str(self.words)))
        return lines


@dataclass(frozen=True)
class Spoken:
    """One utterance with its text: only on pages with text."""

    speaker: str
    start_s: float
    end_s: float
    text: str
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Speech:
    """When one speaker speaks: utterances, or where none are known what words lie close together."""

    speaker: str
    spans: list[tuple[float, float]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of utterances; empty where the page has none
    words: list[Word] = field(default_factory=list)


@dataclass(frozen=True)
class Tier:
    """What one rater said by one scheme about parts of a session; as a tier of ELAN."""

    scheme: Scheme
    name: str  # of the rater, and of the person and the target that the labels are about
    spans: tuple[tuple[float, float, float | str], ...] = ()  # start, end, value; in order
    curve: CurveSamples | None = None  # of a scheme of curves, in place of spans

    @property
    def end_s(self) -> float:
        ends = (end for _, end, _ in self.spans) if self.curve is None else self.curve.time_s.tolist()
        return max(ends, default=0.0)


@dataclass(frozen=True)
class Timetable:
    """Phases in order, the windows inside them, labels, and utterances; in seconds of a track's own recording."""

    phases: tuple[tuple[str, float, float], ...] = ()  # each its name, when it begins and when it ends
    windows: tuple[Window, ...] = ()
    spoken: tuple[Spoken, ...] = ()
    tiers: tuple[Tier, ...] = ()


def read_timetable(
    study: Study,
    session_id: str,
    device: Device | None,
    index: pd.DataFrame | None,
    speaker_prefixes: bool | None,
    *,
    with_text: bool,
) -> tuple[Timetable, str]:
    """The timetable of a track, and why its transcript or a curve cannot be read.

    Args:
        device: the track's; None where the study has no such track.
        index: the clip index; None where the track has no windows.
        speaker_prefixes: ``[transcript] speaker_prefixes``.
        with_text: whether utterances, and labels that are texts, may be on the page.
    """
    tiers, problem = _tiers(study, session_id, device, with_text=with_text)
    table = Timetable(_phases(study, session_id, device), _windows(study, index, session_id), tiers=tiers)
    if problem or not with_text or device is None or device.files.transcript is None:
        return table, problem
    try:
        path = study.path(device.files.transcript)
        transcript = read_transcript(path, allow_malformed=True, speaker_prefixes=speaker_prefixes)
    except UnusableFileError as error:
        return table, str(error)
    utterances = transcript.utterances
    known = {**transcript.pseudonyms, **study.speakers.get(session_id, {})}
    numbers, labels = speaker_labels([each.speaker for each in utterances], known)
    spoken = tuple(
        Spoken(labels[number], each.start_s, each.end_s, each.text, each.words)
        for number, each in zip(numbers, utterances, strict=True)
    )
    return replace(table, spoken=spoken), ""


def _phases(study: Study, session_id: str, device: Device | None) -> tuple[tuple[str, float, float], ...]:
    """The session's phases in their order, in seconds of the track's own recording."""
    if session_id in study.excluded or device is None:
        return ()  # times that are not seconds of the recording would make it a dot on its own timeline
    phases = sorted(
        (phase for phase in study.phases if phase.session_id == session_id), key=lambda phase: phase.start_s
    )
    to_device = device.clock.to_device
    return tuple((phase.phase, float(to_device(phase.start_s)), float(to_device(phase.end_s))) for phase in phases)


def _tiers(study: Study, session_id: str, device: Device | None, *, with_text: bool) -> tuple[tuple[Tier, ...], str]:
    """The labels of parts of the session that are not private, and why a curve cannot be read.

    The timeline of the session's own files has all labels, that of another track those of its own recording. Of labels
    that are texts only the times are there where ``with_text`` is false, also where the study says ``private = no``.
    """
    if session_id in study.excluded or device is None:
        return (), ""
    shown = {name: scheme for name, scheme in study.schemes.items() if not scheme.private}

    def is_here(session: str, scheme: str, track: str | None) -> bool:
        return device.track in (MAIN, track) and session == session_id and scheme in shown

    def seconds(track: str | None, times: ArrayLike) -> NDArray[np.float64]:
        clock = study.clock(session_id, track) if track else Clock.SESSION
        return device.clock.to_device(clock.to_session(times))

    spans: dict[tuple[str, str], list[tuple[float, float, float | str]]] = {}
    for label in study.labels:
        if not is_here(label.session_id, label.scheme, label.track) or label.start_s is None or label.end_s is None:
            continue  # one without times is of the whole session
        start, end = seconds(label.track, [label.start_s, label.end_s]).tolist()
        about = ", ".join(part for part in (label.rater_id, label.person_id, label.target) if part)
        is_secret = shown[label.scheme].type is SchemeType.TEXT and not with_text
        spans.setdefault((label.scheme, about), []).append((start, end, "" if is_secret else label.value))
    tiers = [
        Tier(shown[scheme], about, tuple(sorted(of, key=lambda span: span[:2])))
        for (scheme, about), of in sorted(spans.items())
    ]
    problems = []
    for curve in study.curves:
        if not is_here(curve.session_id, curve.scheme, curve.track):
            continue
        try:
            samples = CurveSamples.read(study.path(curve.path), shown[curve.scheme])
        except UnusableFileError as error:
            problems.append(str(error))
            continue
        samples = replace(samples, time_s=seconds(curve.track, samples.time_s))
        tiers.append(Tier(shown[curve.scheme], curve.rater_id or "", curve=samples))
    return tuple(tiers), " ".join(problems)


def _windows(study: Study, index: pd.DataFrame | None, session_id: str) -> tuple[Window, ...]:
    """The windows of a session, from the clip index."""
    if index is None:
        return ()
    track = index.attrs.get("track", MAIN)
    files = study.tracks.get(session_id, {}).get(track)
    columns = [name for name in index.attrs.get("schemes", {}) if name in index]
    windows = []
    for _, rows in index[index["session_id"] == session_id].groupby(["phase", "start_frame"], sort=False):
        row = rows.iloc[0]
        labels = [(name, _label(rows, name)) for name in columns]
        windows.append(
            Window(
                phase=str(row.phase),
                start_s=float(row.start_s),
                stop_s=float(row.stop_s),
                start_frame=int(row.start_frame),
                stop_frame=int(row.stop_frame),
                split=str(row.split),
                labels=tuple((name, text) for name, text in labels if text),
                face_tracked=None if pd.isna(row.face_tracked) else float(row.face_tracked),
                words=None if pd.isna(row.words) else int(row.words),
                track=track,
                has_frames=files is None or files.video is not None,
            )
        )
    return tuple(sorted(windows, key=lambda window: (window.start_s, window.phase)))


def _label(rows: pd.DataFrame, column: str) -> str:
    """A window's label in a column: ``st-garden: 4, st-mother: 2``, or ``high``; empty where it has none."""
    labelled = rows[rows[column].notna()]
    targets = labelled["target"] if "target" in labelled else labelled["story_id"]  # format 1 had no target
    texts = [value_text(value) for value in labelled[column]]
    return ", ".join(
        text if pd.isna(target) else f"{target}: {text}" for target, text in zip(targets, texts, strict=True)
    )


# --- the numbers behind a timeline ---

NUMBERS = ("row", "from (s)", "to (s)", "lowest", "median", "highest", "values")
"""The columns of :func:`numbers_of`."""
_PAUSE_S = 1.0  # between words of which no utterance is known: a shorter one does not part them
_MOST = 20  # values of a scheme that are counted in the table


def speakers_of(curves: SessionCurves, table: Timetable) -> list[Speech]:
    """What each speaker says, from the transcript on pages with text, else from the store's times."""
    spoken = table.spoken
    if not spoken and curves.utterances is not None:
        spoken = tuple(Spoken(speaker, start, end, "", ()) for speaker, start, end in curves.utterances.spans)
    found: dict[str, Speech] = {}
    for each in spoken:
        speech = found.setdefault(each.speaker, Speech(each.speaker))
        speech.spans.append((each.start_s, each.end_s))
        speech.texts.append(each.text)
        speech.words.extend(each.words)
    if not table.spoken and curves.words is not None:
        for speaker, start, end in curves.words.spans:
            word = Word("", start, end, timed=not curves.words.interpolated)
            found.setdefault(speaker, Speech(speaker)).words.append(word)
    for speech in found.values():
        if not speech.texts:
            speech.spans.extend(_stretches(speech.words))
    return [speech for speech in found.values() if speech.spans]


def _spread(values: NDArray[np.float64]) -> tuple[str, ...]:
    """The smallest value, the median and the largest as text; empty where there is no value."""
    finite = values[np.isfinite(values)]
    return tuple(f"{value:.4g}" for value in np.percentile(finite, (0, 50, 100))) if len(finite) else ("", "", "")


def in_order(words: Sequence[Word]) -> list[Word]:
    """Words by their starts, without those that have no times, as in a feature of others."""
    return sorted((word for word in words if np.isfinite(word.start_s + word.end_s)), key=lambda word: word.start_s)


def _stretches(words: Sequence[Word]) -> list[tuple[float, float]]:
    """From when to when words lie close together."""
    spans: list[tuple[float, float]] = []
    for word in in_order(words):
        if spans and word.start_s - spans[-1][1] < _PAUSE_S:
            spans[-1] = (spans[-1][0], max(spans[-1][1], word.end_s))
        else:
            spans.append((word.start_s, word.end_s))
    return spans


def numbers_of(curves: SessionCurves, table: Timetable) -> Iterator[tuple[str, ...]]:
    """What a track's timeline draws as rows of a table."""
    for phase, start_s, end_s in table.phases:
        yield f"phase {phase}", *_extent([(start_s, end_s)]), "", "", "", ""
    for speech in speakers_of(curves, table):
        said = sum(stop - start for start, stop in speech.spans)
        words = f"{counted(len(speech.words), 'word')}, " if speech.words else ""
        utterances = f"{counted(len(speech.texts), 'utterance')}, " if speech.texts else ""
        about = f"{utterances}{words}{said:.1f} s"
        yield f"speech of {speech.speaker}", *_extent(speech.spans), "", "", "", about
    for tier in table.tiers:
        name = ", ".join(filter(None, (tier.scheme.name, tier.name)))
        if tier.curve is not None:
            times, values = [(moment, moment) for moment in tier.curve.time_s.tolist()], tier.curve.value
        else:
            times = [(start, end) for start, end, _ in tier.spans]
            values = np.array([value for *_, value in tier.spans])
        if not times:
            continue
        if tier.scheme.is_numeric:
            yield name, *_extent(times), *_spread(values), f"{len(values)} values"
        else:
            counts = Counter(value_text(value) or "labels" for *_, value in tier.spans)
            texts = ", ".join(f"{text}: {count}" for text, count in counts.most_common(_MOST))
            yield name, *_extent(times), "", "", "", texts + ", …" * (len(counts) > _MOST)
    for curve in [*curves.summaries(), *curves.other_units()]:
        name = f"{curve.name}, {curve.unit}" if curve.unit else curve.name
        yield name, "", "", *curve.spread, f"in {curve.present:.1%} of the rows"


def _extent(spans: Sequence[tuple[float, float]]) -> tuple[str, str]:
    return f"{min(start for start, _ in spans):.2f}", f"{max(end for _, end in spans):.2f}"
