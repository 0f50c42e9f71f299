"""The tiers of a session: labels, turns, clips, stretches without a measurement, and words where they are allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes import Axis, FeatureName, FeatureStore, ticks
from storyframes.store import SessionTimes
from tasks.study import Label, Scheme, SchemeType, Table, Utterance

TURNS = "turns"  # a feature of storyframes-dyads
_FLOORS = {"first_floor": "first", "second_floor": "second"}


class Span(NamedTuple):
    """One annotation.

    Attributes:
        start, end: microseconds; equal for a moment.
        text: its value.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Tier:
    """One tier.

    Attributes:
        name: unique in its file.
        spans: in any order, until :func:`apart` has sorted them.
        person, rater: whom they are about, and who gave them; empty where the study names nobody.
    """

    name: str
    spans: tuple[Span, ...]
    person: str = ""
    rater: str = ""


def apart(tier: Tier, unit: int = 1) -> Iterator[Tier]:
    """The tier as tiers in which nothing overlaps, moments apart: ``NAME``, ``NAME (2)``, …, ``NAME (moments)``.

    Args:
        unit: microseconds of which times are whole numbers; above 1, every annotation lasts at least as long.

    Example:
        >>> [(t.name, len(t.spans)) for t in apart(Tier("a", (Span(0, 2, "x"), Span(1, 3, "y"), Span(2, 4, "z"))))]
        [('a', 2), ('a (2)', 1)]
    """
    for kind in ("", "moments"):
        lanes: list[list[Span]] = []
        for span in sorted(span for span in tier.spans if (span.start == span.end) == bool(kind)):
            start, end = (round(time / unit) * unit for time in (span.start, span.end))
            placed = Span(start, max(end, start + (unit if unit > 1 else 0)), span.text)
            lane = next((lane for lane in lanes if lane[-1].end <= start and lane[-1].start < start), None)
            if lane is None:
                lanes.append(lane := [])
            lane.append(placed)
        for number, lane in enumerate(lanes, start=1):
            about = " ".join(filter(None, (kind, str(number) if number > 1 else "")))
            yield replace(tier, name=f"{tier.name} ({about})" if about else tier.name, spans=tuple(lane))


def label_tiers(
    labels: Iterable[Label],
    schemes: Mapping[str, Scheme],
    *,
    with_text: bool,
    about_private: str = "--with-text has them",
) -> tuple[list[Tier], list[str]]:
    """A tier for each scheme, rater, person and target of labels with times; and what is left out, for people.

    Args:
        labels: of one session and track.
        with_text: also those of private schemes.
        about_private: which export has those of private schemes, for people.
    """
    groups: dict[tuple[str, str, str, str], list[Span]] = {}
    private, whole = 0, 0
    for label in labels:
        if label.start_s is None or label.end_s is None:
            whole += 1
        elif (schemes[label.scheme].private or schemes[label.scheme].type is SchemeType.TEXT) and not with_text:
            private += 1
        else:
            key = (label.scheme, label.person_id or "", label.target or "", label.rater_id or "")
            span = Span(int(ticks(label.start_s)), int(ticks(label.end_s)), str(Table.as_words(label.value)))
            groups.setdefault(key, []).append(span)
    tiers = []
    for (scheme, person, target, rater), spans in groups.items():
        about = [f"@{person}" if person else "", f"of {target}" if target else "", f"by {rater}" if rater else ""]
        name = " ".join(filter(None, (scheme, *about)))
        tiers.append(Tier(name, tuple(spans), person, rater))
    left_out = [f"{whole} labels of the whole session, which have no times"] if whole else []
    left_out += [f"{private} labels of private schemes ({about_private})"] if private else []
    return tiers, left_out


def clip_tier(clips: pd.DataFrame) -> Tier:
    """The windows of a session's clips, each with its phase and the number of its first frame.

    Args:
        clips: the session's rows of the clip index.
    """
    clips = clips.drop_duplicates(["phase", "start_frame"])
    starts, ends = ticks(clips["start_s"].to_numpy()), ticks(clips["stop_s"].to_numpy())
    texts = clips["phase"].astype(str) + ":" + clips["start_frame"].astype(str).str.zfill(6)
    return Tier("clips", tuple(map(Span, map(int, starts), map(int, ends), texts)))


def turn_tiers(store: FeatureStore, session_id: str, times: SessionTimes) -> Iterator[Tier]:
    """Who has the floor, of the feature ``turns``; nothing where the session does not have it."""
    if TURNS not in store.features(session_id):
        return
    (table,) = store.feature_tables(session_id, TURNS, times=times)
    blocks = [table.named(block) for block in table.blocks()]
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    if "time" not in rows:
        return
    edges = _edges(rows["time"])
    for column, who in _FLOORS.items():
        has_floor = (rows[column] == 1) & rows["mask"]
        yield Tier(f"{TURNS}: {who}", tuple(Span(start, end, who) for start, end in runs(has_floor, edges)))


def unmeasured_tiers(
    store: FeatureStore, session_id: str, times: SessionTimes, features: Iterable[str]
) -> Iterator[Tier]:
    """For each of these features with rows of frames or sound, the stretches whose rows are not measurements."""
    for feature in FeatureName.in_order(features):
        for table in store.feature_tables(session_id, feature, times=times):
            if not table.is_main or table.axis not in (Axis.FRAME, Axis.AUDIO_FRAME) or not table.rows:
                continue
            blocks = [block.keys for block in table.blocks()]
            if "time" not in blocks[0]:
                continue
            time, mask = (np.concatenate([keys[name] for keys in blocks]) for name in ("time", "mask"))
            spans = tuple(
                Span(start, end, "not measured")
                for start, end in runs(~mask.astype(bool), _edges(time, are_middles=table.axis is Axis.AUDIO_FRAME))
            )
            if spans:
                yield Tier(f"not measured: {table.name}", spans)


def text_tiers(utterances: Sequence[Utterance], speakers: Mapping[str, str]) -> Iterator[Tier]:
    """The utterances of each speaker, and their words.

    Args:
        speakers: what each speaker of the transcript is called here.
    """
    by_speaker: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        by_speaker.setdefault(speakers[utterance.speaker], []).append(utterance)
    for speaker, of_speaker in by_speaker.items():
        spans = [_span(utterance.start_s, utterance.end_s, utterance.text) for utterance in of_speaker]
        # Interpolated times would come back as measured: without its words, an utterance is interpolated again.
        timed = [utterance for utterance in of_speaker if all(word.timed for word in utterance.words)]
        words = [_span(word.start_s, word.end_s, word.text) for utterance in timed for word in utterance.words]
        yield Tier(f"utterances: {speaker}", tuple(spans), speaker)
        yield Tier(f"words: {speaker}", tuple(words), speaker)


def _span(start_s: float, end_s: float, text: str) -> Span:
    return Span(int(ticks(start_s)), int(ticks(end_s)), " ".join(text.split()))


def _edges(time: np.ndarray, *, are_middles: bool = False) -> np.ndarray:
    """(n + 1,) int64: when each row begins and the last one ends, microseconds; a row lasts until the next.

    Args:
        time: when each row begins, or with ``are_middles`` its middle, as of sound.
    """
    starts = ticks(time)
    step = int(np.median(np.diff(starts))) if len(starts) > 1 else 0
    starts = np.maximum(starts - step // 2, 0) if are_middles else starts
    return np.append(starts, starts[-1:] + step)


def runs(flags: np.ndarray, edges: np.ndarray) -> list[tuple[int, int]]:
    """Where consecutive rows are flagged, as start and end.

    Args:
        flags: (n,) bool.
        edges: (n + 1,) when each row begins, and the last one ends.

    Example:
        >>> runs(np.array([True, True, False, True]), np.array([0, 10, 20, 30, 40]))
        [(0, 20), (30, 40)]
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(edges[start]), int(edges[end])) for start, end in changes.reshape(-1, 2)]
