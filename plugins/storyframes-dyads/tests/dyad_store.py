"""Stores of dyads whose faces move together, with a known lag, made of random values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from storyframes import FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES
from storyframes.store import FeatureWriter, catalogue, create_store, open_storage
from storyframes.times import Clock
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study.load import Phase, Session, Study
from tasks.study.rows import Person, Track

SMILE = FEATURES["openface"].arrays["values"].columns.index("AU12_r")
BLINK = FEATURES["openface"].arrays["values"].columns.index("AU45_r")
FINE = 200  # points per second at which movements are made


def movement(generator: np.random.Generator, seconds: float) -> np.ndarray:
    """(n,) a slow random movement at 200 points a second: it forgets within about a second."""
    signal = lfilter([1], [1, -0.995], generator.normal(size=round(seconds * FINE) + 2000))[2000:]
    return np.asarray(signal / signal.std())


def write_dyads(
    root: Path,
    *,
    lag_s: float | None,
    sessions: Sequence[str] = ("s1",),
    rates: tuple[float, float] = (15.0, 25.0),
    seconds: float = 120.0,
    offset_s: float = 4.2,
    drift: float = 80e-6,
    masked: float = 0.1,
    clock_error_s: float | None = None,
    same_therapist: Sequence[str] = (),
    seed: int = 0,
) -> FeatureStore:
    """The main track is one person's camera; track ``b``, with a clock of its own, films the other, who follows.

    Args:
        lag_s: seconds by which the other person follows; None where the two have nothing in common.
        offset_s: of the session when the second camera begins.
        drift: how much faster its clock runs.
        clock_error_s: the standard error of the second camera's clock.
        same_therapist: sessions that have one person beside their participants.
        masked: the share of frames without a face, in stretches of a second.
    """
    create_store(root)
    storage = open_storage(root)
    generator = np.random.default_rng(seed)
    for session in sessions:
        leader = movement(generator, seconds + 40)
        follower = movement(generator, seconds + 40)
        at_fine = np.arange(len(leader)) / FINE - 20
        for track, rate, begin, runs, smile in (
            ("main", rates[0], 0.0, 0.0, leader),
            ("b", rates[1], offset_s, drift, leader if lag_s is not None else follower),
        ):
            length = seconds - begin
            device = np.arange(round(length * rate)) / rate
            in_session = device / (1 + runs) + begin
            moved = in_session - (lag_s or 0 if track == "b" else 0)
            count = len(device)
            values = generator.normal(size=(count, 714)).astype(np.float32)
            values[:, SMILE] = np.interp(moved, at_fine, smile) + 0.2 * generator.normal(size=count)
            valid = np.ones(count, np.uint8)
            for start in generator.integers(0, count, round(masked * length)):
                valid[start : start + round(rate)] = 0
            values[valid == 0, 5:] = np.nan
            for feature, rows in (
                ("frames", {"time": device}),
                ("openface", {"values": values, "valid": valid, "confidence": np.ones(count, np.float32)}),
            ):
                with FeatureWriter(storage, session, FEATURES[feature], track=track) as out:
                    for name, array in rows.items():
                        out.write(name, array)
                    out.publish("f", {})
    catalogue.compact(storage)
    clock = Clock("c", (0.0, 3600 * (1 + drift)), (offset_s, 3600 + offset_s))
    study = Study(
        Path("/nowhere"),
        {name: Session(session_id=name, participant_id=f"of-{name}", video=f"{name}.mp4") for name in sessions},
        persons=tuple(Person(session_id=name, person_id="b", participant_id="therapist") for name in same_therapist),
        phases=tuple(Phase(session_id=name, phase="all", start_s=0, end_s=seconds) for name in sessions),
        tracks={
            name: {
                "main": Track(name, "main", video=f"{name}.mp4"),
                "b": Track(name, "b", video=f"{name}_b.mp4", clock="c"),
            }
            for name in sessions
        },
        clocks={name: {"c": clock} for name in sessions},
        clock_errors={} if clock_error_s is None else {name: {"c": clock_error_s} for name in sessions},
    )
    store = FeatureStore(root)
    spec = WindowSpec(window_s=4, stride_s=4, split_shares=(1, 0, 0))
    write_clip_index(build_clip_index(study, spec, store).clips, storage)
    return FeatureStore(root)
