"""Clip indexes: from tables and signals in memory, and of studies with curves beside the clocks of their frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes import FeatureStore
from storyframes.clips.clip_index import clip_rows
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals, windows_of
from storyframes.label_curves import curve_spec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from support.stores import local
from support.synthetic_features import publish
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.clip_index.label_rules import LabelRule
from tasks.extract import Outcome
from tasks.extract import extract as do_work
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

FRAMES, WINDOW = 60, 20
FRAME_TIMES = {
    "a": np.arange(FRAMES) / 25,
    "b": np.cumsum(np.random.default_rng(5).uniform(0.03, 0.05, FRAMES)) - 0.03,  # no constant rate
}
SCHEMES = "scheme,type,min,max,private\nvalence,curve,-1,1,\nsecret,curve,,,yes\n"


def build_index(
    sessions: pd.DataFrame,
    phases: pd.DataFrame,
    ratings: pd.DataFrame,
    spec: WindowSpec,
    signals: Mapping[str, SessionSignals] | None = None,
    features: Sequence[str] = (),
) -> pd.DataFrame:
    """The clip index of a study: cuts windows and makes their rows by :func:`clip_rows`, which describes the tables.

    Args:
        phases: columns session_id, phase, start_s, end_s; infinite where a phase is the whole session.
        signals: by session; without them the index is made from the tables alone, at ``spec.fps``.
        features: the features that get a ``has_`` column.
    """
    signals = signals or {}
    windows = windows_of(
        ((phase, signals.get(phase.session_id, SessionSignals())) for phase in phases.itertuples(index=False)), spec
    )
    having = {name: [session for session, signal in signals.items() if name in signal.features] for name in features}
    return clip_rows(windows, sessions, ratings, spec, having)


def write_curve(study: Path, name: str, values: dict[float, float | None]) -> str:
    """A curve's file; None stands for an empty cell."""
    rows = [f"{time},{'' if value is None else value}" for time, value in values.items()]
    (study / name).write_text("\n".join(["time_s,value", *rows]) + "\n")
    return name


def write_study(
    folder: Path, curves: list[tuple[str, str, str, str, str]], schemes: str = SCHEMES, tracks: str = ""
) -> Path:
    """Sessions a and b, whose videos nobody needs; curves: session_id, scheme, path, rater_id, track."""
    folder.mkdir(exist_ok=True)
    (folder / "sessions.csv").write_text("session_id,participant_id,video\na,p1,a.mkv\nb,p2,b.mkv\n")
    (folder / "schemes.csv").write_text(schemes)
    rows = "".join(",".join(row) + "\n" for row in curves)
    (folder / "curves.csv").write_text(f"session_id,scheme,path,rater_id,track\n{rows}")
    if tracks:
        (folder / "tracks.csv").write_text(f"session_id,track,audio\n{tracks}")
    return folder


def extracted(study: Path, root: Path, *only: str, **rules: LabelRule) -> dict[str, Outcome]:
    """Extract the curves; what came of each, by session and feature."""
    loaded = load_study(study)
    plan = plan_extraction(
        loaded, root, ExtractorsSettings(features=()), Selection(only=only or None), rules=rules or {}
    )
    outcomes = [*plan.settled, *(outcome for work in plan.units for outcome in do_work(work))]
    catalogue.compact(local(root))
    return {f"{outcome.session_id}/{outcome.feature}": outcome for outcome in outcomes}


def write_timed(base: Path) -> tuple[Path, Path]:
    """A store with the clocks of two sessions and of a camera that begins later and runs fast, and their study."""
    curves = [
        ("a", "valence", "a.csv", "", ""),
        ("b", "valence", "b.csv", "", ""),
        ("a", "valence", "c.csv", "", "cam"),
    ]
    study = write_study(base / "study", curves)
    (study / "tracks.csv").write_text("session_id,track,audio,clock\na,cam,a.wav,late\n")
    (study / "clocks.csv").write_text("session_id,clock,clock_s,session_s\na,late,0,0.5\na,late,10.004,10.5\n")
    root = base / "features"
    create_store(root)
    for session, time in FRAME_TIMES.items():
        publish(root, session, "frames", {"time": time})
        put_curve(root, session, "label.valence", np.zeros(1), np.zeros(1))
    index(study, root)
    return study, root


def put_curve(root: Path, session: str, feature: str, time: np.ndarray, values: np.ndarray, **said: object) -> None:
    name, _, track = feature.partition("@")
    with FeatureWriter(local(root), session, curve_spec(name), track=track or "main") as out:
        out.write("time", time)
        out.write("values", values.astype(np.float32))
        out.write("raters", (~np.isnan(values)).astype(np.int16))
        out.attributes |= said
        out.publish("f", {})


def index(study: Path, root: Path) -> None:
    catalogue.compact(local(root))
    windows = WindowSpec(window=WINDOW, stride=7, split_shares=(1, 0, 0))
    write_clip_index(build_clip_index(load_study(study), windows, FeatureStore(root)).clips, local(root))


# --- oversampling: counts that were computed from the definitions ---

ORACLE = json.loads((Path(__file__).parents[1] / "data/oversampling.json").read_text())


@dataclass
class Clips:
    """As much of a ClipDataset as a sampler looks at."""

    clips: pd.DataFrame
    schemes: dict[str, str] = field(default_factory=lambda: {"empathy": "ordinal"})

    def __len__(self) -> int:
        return len(self.clips)


def oracles_clips() -> Clips:
    """A study of five participants; the oracle's numbers were computed from the definitions, not with this package."""
    rows = [
        (participant, int(rating), ORACLE["split"][participant])
        for participant, counts in ORACLE["clips"].items()
        for rating, count in counts.items()
        for _ in range(count)
    ]
    return Clips(pd.DataFrame(rows, columns=["participant_id", "empathy", "split"]))
