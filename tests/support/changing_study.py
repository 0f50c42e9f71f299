"""A study and its store that change in every way that a clip index can notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import feature_spec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.times import Clock
from support.stores import local
from support.synthetic_features import random_features
from tasks.study.load import Phase, Rating, Session, Study
from tasks.study.rows import Track

SESSIONS = ("a", "b", "c", "d")
FEATURES = ("frames", "openface", "opensmile", "glove")
SPECS = (
    WindowSpec(window=9, stride=4),
    WindowSpec(window=9, stride=5),
    WindowSpec(window=14, stride=4, split_seed=3),
    WindowSpec(window=9, stride=4, phases=("talk",)),
    WindowSpec(window=9, stride=4, unlabelled="keep"),
    WindowSpec(window=9, stride=4, fps=25),
    WindowSpec(window_s=0.7, stride_s=0.3, unlabelled="keep"),
    WindowSpec(window=9, stride=4, track="cam", unlabelled="keep"),
)


@dataclass
class ChangingStudy:
    """A store at ``root``, and the study and the windows of its index as they are by now."""

    root: Path
    random: np.random.Generator
    study: Study = field(default_factory=lambda: Study(Path("/nowhere"), {}))
    spec: WindowSpec = SPECS[0]

    def __post_init__(self) -> None:
        create_store(self.root)
        self.study = replace(self.study, sessions={one: _session(one) for one in SESSIONS[:3]})
        for session_id in SESSIONS[:3]:
            self.extract(session_id)
            self.give_phases(session_id)
            self.rate(session_id)

    def change(self) -> str:
        """Change something; says what."""
        session_id = str(self.random.choice(SESSIONS))
        changes: list[Callable[[str], None]] = [
            self.extract, self.extract, self.extract_again, self.give_phases, self.rate, self.add_camera,
            self.set_clock, self.take_out, self.put_in, self.exclude, self.cut_otherwise, self.without_phases,
        ]  # fmt: skip
        chosen = changes[int(self.random.integers(len(changes)))]
        chosen(session_id)
        catalogue.compact(local(self.root))
        return f"{chosen.__name__} {session_id}"

    def extract(self, session_id: str, track: str = "main") -> None:
        """Some features of a session, of another length and rate than before."""
        count = int(self.random.integers(0, 70)) if self.random.random() < 0.1 else int(self.random.integers(30, 70))
        arrays = random_features(self.random, max(count, 12))
        fps = self.random.choice([15, 15, 15, 25])
        for feature in FEATURES if track == "main" else FEATURES[:3]:
            if self.random.random() < 0.1:
                continue
            values = arrays[feature]
            if feature == "frames":
                late = np.where(np.arange(count) > count * 2 // 3, self.random.choice([0, 0, 1.3]), 0)
                values = {"time": np.arange(count) / fps + late}
            self.publish(session_id, feature, values, track)
        catalogue.compact(local(self.root))

    def extract_again(self, session_id: str) -> None:
        """One feature alone."""
        feature = str(self.random.choice(FEATURES[1:]))
        self.publish(session_id, feature, random_features(self.random, 70)[feature])

    def publish(self, session_id: str, feature: str, values: dict[str, np.ndarray], track: str = "main") -> None:
        """One feature, as it is given."""
        with FeatureWriter(local(self.root), session_id, feature_spec(session_id, feature), track=track) as out:
            for name, rows in values.items():
                out.write(name, rows)
            out.publish("f", {})

    def give_phases(self, session_id: str) -> None:
        others = tuple(one for one in self.study.phases if one.session_id != session_id)
        if session_id in self.study.sessions:
            cut = round(float(self.random.uniform(0.5, 2)), 2)
            end = cut + round(float(self.random.uniform(0.5, 3)), 2)
            mine = [Phase(session_id=session_id, phase="talk", start_s=0.1, end_s=cut)]
            mine += [Phase(session_id=session_id, phase="listen", start_s=cut, end_s=end)] * bool(
                self.random.integers(4)
            )
            others = (*others, *mine)
        self.study = replace(self.study, phases=others)

    def without_phases(self, session_id: str) -> None:
        self.study = replace(self.study, phases=())

    def rate(self, session_id: str) -> None:
        ratings = [one for one in self.study.ratings if one.session_id != session_id]
        if session_id in self.study.sessions:
            positions = self.random.permutation(3)[: int(self.random.integers(0, 3))]
            ratings += [
                Rating(
                    session_id=session_id, story_id=f"t{at}", position=at + 1, empathy=int(self.random.integers(1, 6))
                )
                for at in positions.tolist()
            ]
        self.study = replace(self.study, ratings=tuple(ratings))

    def add_camera(self, session_id: str) -> None:
        if session_id not in self.study.sessions:
            return
        cameras = {
            "main": Track(session_id, "main", video=f"{session_id}.mp4"),
            "cam": Track(session_id, "cam", video=f"{session_id}_c.mp4", clock="c"),
        }
        clocks = {"c": Clock("c", (0.0,), (0.2,))}
        self.study = replace(
            self.study,
            tracks={**self.study.tracks, session_id: cameras},
            clocks={**self.study.clocks, session_id: clocks},
        )
        self.extract(session_id, "cam")

    def set_clock(self, session_id: str) -> None:
        if session_id in self.study.clocks:
            offset_s = float(self.random.choice([0.0, 0.5, -0.3, 40.0]))
            clocks = {**self.study.clocks, session_id: {"c": Clock("c", (0.0,), (offset_s,))}}
            self.study = replace(self.study, clocks=clocks)

    def take_out(self, session_id: str) -> None:
        if session_id in self.study.sessions and len(self.study.sessions) > 1:
            left = {one: session for one, session in self.study.sessions.items() if one != session_id}
            self.study = replace(self.study, sessions=left, excluded={})
            for name in ("tracks", "clocks"):
                table: Any = {one: of for one, of in getattr(self.study, name).items() if one != session_id}
                self.study = replace(self.study, **{name: table})
            self.give_phases(session_id)
            self.rate(session_id)

    def put_in(self, session_id: str) -> None:
        self.study = replace(self.study, sessions={**self.study.sessions, session_id: _session(session_id)})

    def exclude(self, session_id: str) -> None:
        excluded = {} if self.study.excluded or session_id not in self.study.sessions else {session_id: "odd tables"}
        self.study = replace(self.study, excluded=excluded)

    def cut_otherwise(self, session_id: str) -> None:
        self.spec = SPECS[int(self.random.integers(len(SPECS)))]


def _session(session_id: str) -> Session:
    return Session(session_id=session_id, participant_id=f"p{session_id}", video=f"{session_id}.mp4")
