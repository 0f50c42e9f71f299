"""A clip index that is brought up to date is, to the bit, the one that is made of everything again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.messages import missing
from support.stores import local
from support.synthetic_features import random_features

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import read_windows
from storyframes.features import feature_spec
from storyframes.store import catalogue
from storyframes.store.clip_table import to_table
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, WINDOWS, create_store
from storyframes.store.maintenance.verification import verify
from storyframes.store.publish import FeatureWriter
from storyframes.times import Clock
from tasks.clip_index import session_windows
from tasks.clip_index.index import ClipIndex, build_clip_index, update_clip_index
from tasks.study.load import Phase, Rating, Session, Study
from tasks.study.rows import Track

SESSIONS = ("a", "b", "c", "d")
FEATURES = ("frames", "openface", "glove")
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

    def changes(self) -> list[Callable[[str], None]]:
        """Every kind of change, of a session."""
        return [
            self.extract, self.extract_again, self.give_phases, self.rate, self.add_camera, self.set_clock,
            self.take_out, self.put_in, self.exclude, self.cut_otherwise, self.without_phases,
        ]  # fmt: skip

    def extract(self, session_id: str, track: str = "main") -> None:
        """Some features of a session, of another length and rate than before."""
        count = int(self.random.integers(0, 70)) if self.random.random() < 0.1 else int(self.random.integers(30, 70))
        arrays = random_features(self.random, max(count, 12))
        fps = self.random.choice([15, 15, 15, 25])
        for feature in FEATURES if track == "main" else FEATURES[:2]:
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


@pytest.fixture
def made(tmp_path: Path) -> ChangingStudy:
    return ChangingStudy(tmp_path / "store", np.random.default_rng(5))


def updated(made: ChangingStudy) -> ClipIndex:
    return update_clip_index(made.study, made.spec, FeatureStore(made.root))


def check_equal(made: ChangingStudy) -> None:
    new = updated(made)
    anew = build_clip_index(made.study, made.spec, FeatureStore(made.root))
    pd.testing.assert_frame_equal(new.clips, anew.clips, check_exact=True)
    assert new.clips.attrs == anew.clips.attrs
    assert (new.excluded, new.warnings, new.remarks) == (anew.excluded, anew.warnings, anew.remarks)
    assert pq.read_table(made.root / CLIPS).equals(to_table(anew.clips), check_metadata=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_changes_the_index_is_the_one_that_is_made_of_everything(tmp_path: Path, seed: int) -> None:
    """Every kind of change once, in any order."""
    random = np.random.default_rng(seed)
    made = ChangingStudy(tmp_path / "store", random)
    changes = made.changes()
    for number in random.permutation(len(changes)):
        changes[number](str(random.choice(SESSIONS)))
        catalogue.compact(local(made.root))
        check_equal(made)


class Reading:
    """Which sessions were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: set[str] = set()
        read = FeatureStore.read

        def noted(store: FeatureStore, session_id: str, *arguments: object, **named: object) -> np.ndarray:
            self.sessions.add(session_id)
            return read(store, session_id, *arguments, **named)

        monkeypatch.setattr(FeatureStore, "read", noted)

    def by(self, made: ChangingStudy) -> set[str]:
        self.sessions = set()
        updated(made)
        return self.sessions


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def test_only_what_changed_is_read(made: ChangingStudy, reading: Reading) -> None:
    assert reading.by(made) == {"a", "b", "c"}
    assert reading.by(made) == set()
    made.extract_again("b")
    catalogue.compact(local(made.root))
    assert reading.by(made) == {"b"}
    made.give_phases("c")
    assert reading.by(made) == {"c"}
    made.spec = replace(made.spec, split_seed=9, split_shares=(0.5, 0.25, 0.25), unlabelled="keep")
    assert reading.by(made) == set()
    made.spec = SPECS[1]
    assert reading.by(made) == {"a", "b", "c"}


@pytest.mark.slow
def test_every_part_of_a_phase_is_in_the_mark(made: ChangingStudy, reading: Reading) -> None:
    """A phase that is moved by less than a frame's time, ends later or has another name is cut anew."""
    made.spec = SPECS[4]
    talk = Phase(session_id="b", phase="talk", start_s=0.1, end_s=1.5)
    starts = []
    for phase in (
        talk,
        talk.model_copy(update={"start_s": 0.15}),
        talk.model_copy(update={"start_s": 0.15, "end_s": 2.1}),
        talk.model_copy(update={"start_s": 0.15, "end_s": 2.1, "phase": "listen"}),
    ):
        others = tuple(each for each in made.study.phases if each.session_id != "b")
        made.study = replace(made.study, phases=(*others, phase))
        assert "b" in reading.by(made), phase
        check_equal(made)
        clips = FeatureStore(made.root).clips()
        starts.append(clips.loc[clips["session_id"] == "b", ["phase", "start_frame"]].values.tolist())
    assert len({str(each) for each in starts}) == 4
    assert reading.by(made) == set()


def test_no_session_stays_open(made: ChangingStudy) -> None:
    store = FeatureStore(made.root)
    update_clip_index(made.study, made.spec, store)
    assert str(made.root) not in Path("/proc/self/maps").read_text()
    assert len(store.view("a", "openface"))
    assert str(made.root) in Path("/proc/self/maps").read_text()


def test_what_was_found_before_may_be_lost_or_damaged(made: ChangingStudy, reading: Reading) -> None:
    updated(made)
    windows = made.root / WINDOWS
    content = windows.read_bytes()
    windows.unlink()
    check_equal(made)
    assert windows.read_bytes() == content
    windows.write_bytes(content[:400] + bytes([content[400] ^ 1]) + content[401:])
    assert [(each.path, each.problem.partition(" is")[0]) for each in verify(local(made.root))] == [(WINDOWS, WINDOWS)]
    assert reading.by(made) == {"a", "b", "c"}
    assert windows.read_bytes() == content
    assert list(verify(local(made.root))) == []


def test_damage_in_a_session_that_did_not_change_is_found_when_all_are_read(made: ChangingStudy) -> None:
    """An update after each night's extraction reads what changed; ``verify`` and ``index`` read all."""
    made.spec = SPECS[6]
    updated(made)
    store = FeatureStore(made.root)
    version = store.version("b", "frames")
    assert version is not None
    for file in (made.root / version / "time").rglob("*"):
        if file.is_file():
            file.unlink()
    assert updated(made).excluded == {}
    steps: list[tuple[str, int, int]] = []
    anew = update_clip_index(
        made.study, made.spec, FeatureStore(made.root), anew=True, progress=lambda *step: steps.append(step)
    )
    assert steps == [("a", 1, 3), ("b", 2, 3), ("c", 3, 3)]
    assert list(anew.excluded) == ["b"]
    assert "'storyframes verify'" in anew.excluded["b"]
    assert set(anew.clips["session_id"]) == {"a", "c"}
    assert list(updated(made).excluded) == ["b"]  # and by now it is known


def test_faces_of_another_recording_cost_their_session_and_no_other(made: ChangingStudy) -> None:
    """The video was replaced, and OpenFace failed on the new one: its last version is of other frames."""
    made.spec = SPECS[6]
    values = {"time": np.arange(29) / 15}
    made.publish("b", "frames", values)
    faces = {"valid": np.ones(31, np.uint8), "confidence": np.ones(31, np.float32), "values": np.ones((31, 714))}
    made.publish("b", "openface", faces)
    catalogue.compact(local(made.root))
    built = updated(made)
    assert list(built.excluded) == ["b"]
    assert missing(built.excluded["b"], "29 frames", "openface has 31 rows", "extract openface again") == []
    assert set(built.clips["session_id"]) == {"a", "c"}


def test_other_windows_of_the_same_arrays_raise_the_rule(tmp_path: Path) -> None:
    """Rows that were found before are taken for what would be found now: if that changes, ``_RULE`` has to."""
    made = ChangingStudy(tmp_path / "store", np.random.default_rng(0))
    time = np.arange(40) / 15 + np.where(np.arange(40) > 25, 0.5, 0)
    made.publish("a", "frames", {"time": time})
    tracked = (np.arange(40) % 3 > 0).astype(np.uint8)
    faces = {"valid": tracked, "confidence": np.arange(40, dtype=np.float32) / 40, "values": np.ones((40, 714))}
    made.publish("a", "openface", faces)
    catalogue.compact(local(made.root))
    phase = Phase(session_id="a", phase="talk", start_s=0.2, end_s=2.9)
    made.study = replace(made.study, phases=(phase,))
    made.spec = WindowSpec(window=15, stride=10)
    updated(made)
    (row,) = [each for each in read_windows(local(made.root)).to_pylist() if each["session_id"] == "a"]
    names = ("start_frame", "start_s", "stop_s", "face_tracked", "frames_expected", "longest_gap_s")
    windows = [[round(window[name], 4) for name in names] for window in row["windows"]]
    expected = [[3, 0.2, 1.2, 0.6667, 15, 0.0667], [13, 0.8667, 2.3667, 0.6667, 22, 0.5667]]
    assert (session_windows._RULE, row["frames"], round(row["rate"], 6), windows) == (4, 40, 15, expected)
