"""What begins first, and how many processors it gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_recording
from support.studies import make_study, run

from storyframes.features import CLOCK
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extract import ExtractionUnit
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.container import FIRST_STREAMS
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.units import most_expensive_first, price_of, recording_s
from tasks.study.load import load_study


@pytest.fixture(scope="module")
def uneven_study(tmp_path_factory) -> Path:
    """Three sessions of 2, 4 and 1 seconds."""
    folder = tmp_path_factory.mktemp("uneven") / "study"
    write_study(folder, SyntheticStudy(sessions=3, seconds=2))
    for name, seconds in (("s0002", 4), ("s0003", 1)):
        other = folder.parent / name
        write_study(other, SyntheticStudy(sessions=1, seconds=seconds))
        (other / "videos/s0001.avi").replace(folder / f"videos/{name}.avi")
    return folder


def planned(study: Path, root: Path, cpus: int = 1, *, sessions: tuple[str, ...] | None = None, **sections) -> Plan:
    create_store(root)
    settings = ExtractorsSettings(**{"resnet50": {"allow_untrained": True}, **sections})
    return plan_extraction(load_study(study), root, settings, Selection(sessions), cpus=cpus)


def test_clocks_first_then_the_most_expensive_feature_of_the_longest_session(
    uneven_study: Path, tmp_path: Path
) -> None:
    work = planned(uneven_study, tmp_path / "features").units
    clocks = [unit.features == (CLOCK,) for unit in work]
    assert clocks == sorted(clocks, reverse=True)
    assert [unit.session_id for unit in work if unit.features == (CLOCK,)] == ["s0002", "s0001", "s0003"]
    assert [unit.session_id for unit in work if unit.features == ("resnet50",)] == ["s0002", "s0001", "s0003"]
    for session_id in ("s0001", "s0002", "s0003"):
        features = [unit.features[0] for unit in work if unit.session_id == session_id]
        assert features[:3] == [CLOCK, "resnet50", "opensmile"]
    assert [unit.cost for unit in work if unit.features != (CLOCK,)] == sorted(
        (unit.cost for unit in work if unit.features != (CLOCK,)), reverse=True
    )


def test_everything_waits_for_its_sessions_frames_alone(uneven_study: Path, tmp_path: Path) -> None:
    work = planned(uneven_study, tmp_path / "features").units
    first = {(unit.session_id == "stories" or unit.features == ("frames",), unit.after) for unit in work}
    assert first == {(True, ()), (False, ("frames",))}


def expected_cost(features: tuple[str, ...], settings: ExtractorsSettings, length_s: float) -> float:
    return price_of(features, settings).cost(length_s)


def test_cost_follows_the_length_and_the_settings(uneven_study: Path, tmp_path: Path) -> None:
    source = {unit.session_id: unit.source for unit in planned(uneven_study, tmp_path / "features").units}
    assert [recording_s(source[name], FIRST_STREAMS) for name in ("s0001", "s0002", "s0003")] == [2.0, 4.0, 1.0]
    assert recording_s(source["stories"], FIRST_STREAMS) == 0
    settings = ExtractorsSettings()
    half = ExtractorsSettings(resnet50={"precision": "bfloat16"})
    binary = ExtractorsSettings(openface={"backend": "container"})
    sparse = ExtractorsSettings(dope={"every_n_frames": 15})
    assert expected_cost(("resnet50",), half, 60) < expected_cost(("resnet50",), settings, 60)
    assert expected_cost(("openface",), binary, 60) > 10 * expected_cost(("openface",), settings, 60)
    assert expected_cost(("dope",), sparse, 60) < expected_cost(("dope",), settings, 60) / 10
    together = expected_cost(("resnet50", "dope"), settings, 60)
    assert together > max(expected_cost((name,), settings, 60) for name in ("resnet50", "dope"))


def test_an_unreadable_recording_only_comes_last(uneven_study: Path, tmp_path: Path) -> None:
    work = planned(uneven_study, tmp_path / "features").units
    broken = tmp_path / "broken.avi"
    broken.write_bytes(b"no video")

    def damaged(unit: ExtractionUnit) -> ExtractionUnit:
        file = replace(unit.source.files["video"], path=broken)
        return replace(unit, source=replace(unit.source, files={**unit.source.files, "video": file}))

    again = most_expensive_first([damaged(unit) if unit.session_id == "s0002" else unit for unit in work])
    assert [unit.session_id for unit in again if unit.features == (CLOCK,)][-1] == "s0002"


@pytest.mark.parametrize(
    ("cpus", "sessions", "expected"),
    [(1, None, None), (3, None, None), (6, None, 2), (2, ("s0001",), 2), (64, ("s0001",), 8)],
)
def test_few_sessions_get_more_processors_each(
    uneven_study: Path, tmp_path: Path, cpus: int, sessions, expected: int | None
) -> None:
    plan = planned(uneven_study, tmp_path / "features", cpus, sessions=sessions)
    assert {unit.settings.resnet50.cpus for unit in plan.units if unit.features == ("resnet50",)} == {expected}
    assert {unit.settings.resnet50.cpus for unit in plan.units if unit.features != ("resnet50",)} == {None}


def test_what_is_set_stays_and_torch_does_not_spread(uneven_study: Path, tmp_path: Path) -> None:
    for number, section in enumerate(({"cpus": 1}, {"engine": "torch"})):
        plan = planned(uneven_study, tmp_path / str(number), 8, resnet50={"allow_untrained": True, **section})
        (cpus,) = {unit.settings.resnet50.cpus for unit in plan.units if unit.features == ("resnet50",)}
        assert cpus == section.get("cpus")


def test_features_on_a_gpu_and_on_processors_share_no_pass(uneven_study: Path, tmp_path: Path) -> None:
    """No worker has both, so that a unit of both would be refused."""
    sections = {"resnet50": {"allow_untrained": True, "device": "cuda"}, "dope": {"model": __file__}}
    features = ("frames", "resnet50", "dope")
    plan = planned(uneven_study, tmp_path / "features", sessions=("s0001",), features=features, **sections)
    needs = {feature: set(unit.needs) for unit in plan.units for feature in unit.features}
    assert needs == {"frames": {"CPU"}, "resnet50": {"GPU"}, "dope": {"CPU"}}


def test_what_is_made_of_other_inputs_or_settings_is_due_and_nothing_else(tmp_path: Path) -> None:
    study, root = make_study(tmp_path / "study", video="v.mkv"), tmp_path / "features"
    create_store(root)
    only = {"features": ("frames", "opensmile")}

    def due(**settings: object) -> list[str]:
        plan = plan_extraction(load_study(study), root, ExtractorsSettings(**only | settings), Selection())
        return sorted(feature for unit in plan.units for feature in unit.features)

    write_recording(study / "v.mkv", 5)
    outcomes = run(study, root, Selection(only=("frames", "opensmile")))
    assert [outcomes[f"s/{name}"].status for name in ("frames", "opensmile")] == [Status.DONE, Status.MISSING]
    assert due() == []
    assert due(opensmile={"feature_set": "eGeMAPSv02"}) == ["opensmile"]  # it may find something, with other settings
    write_recording(study / "v.mkv", 6, np.zeros((8000, 1), np.int16))
    assert due() == ["frames", "opensmile"]
