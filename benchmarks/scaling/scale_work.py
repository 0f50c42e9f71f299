"""Giving out the work of very many short sessions, which does nothing: all that is measured is the giving out."""

from __future__ import annotations

from pathlib import Path

from benchmarks.scaling.noop_work import NoopUnit, noop_work, through_storyframes
from benchmarks.scaling.scale import SIZES, Measure

# What planning expects of the features of a session of 8 seconds, CPU-seconds. 4 seconds of sound and picture took a
# worker that had done others before .02 (frames), 3.6 (resnet50), .1 (openSMILE), .05 (GloVe), .14 (SBERT), .04
# (OpenFace's CSV).
COSTS = {"frames": 0.34, "openface": 0.12, "resnet50": 7.3, "opensmile": 0.34, "glove": 0.14, "sbert": 0.14}


WITHOUT_RESNET50 = {feature: cost for feature, cost in COSTS.items() if feature != "resnet50"}
_SIZES = tuple(size for size in SIZES if size <= 20_000)


def _work(folder: Path, sessions: int) -> list[NoopUnit]:
    return noop_work(sessions, folder, COSTS)


def _cheap_work(folder: Path, sessions: int) -> list[NoopUnit]:
    return noop_work(sessions, folder, WITHOUT_RESNET50)


def _give_out(work: list[NoopUnit]) -> str:
    from flows.gather import MOST, WORTH_S

    done = through_storyframes(work)
    if done != len(work):
        raise SystemExit(f"{done} of {len(work)} units of work came back")
    return f"{done:,} units, up to {MOST} or {WORTH_S:.0f} s of them a task"


GIVING_OUT = Measure("giving out its work", _work, _give_out, _SIZES, sum(COSTS.values()))
GIVING_OUT_CHEAP = Measure("the same without resnet50", _cheap_work, _give_out, _SIZES, sum(WITHOUT_RESNET50.values()))
STARTING = Measure("a run of one session: starting", lambda folder, _: _work(folder, 1), _give_out, (1,))
