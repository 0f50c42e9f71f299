"""A feature that is made of stored features: what it records, and when it is out of date."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import missing, naming
from support.stores import local, publish_openface
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.derivation import Derivation
from storyframes.derived_status import with_outdated
from storyframes.features import FEATURES, ArraySpec, Axis, FeatureSpec
from storyframes.store import FeatureWriter, StoreError, compact
from storyframes.store.record_status import scan
from storyframes.store.records import Caveat
from storyframes.times import Clock
from tasks.clip_index.index import write_clip_index

SPEC = FeatureSpec(
    "mean_smile",
    "of a test",
    {
        "values": ArraySpec(Axis.MOMENT, "float32", "of a test"),
        "time": ArraySpec(Axis.MOMENT, "float64", "of a test", units="s"),
    },
)
MADE = Derivation(SPEC, ("openface",), {"window_s": 2}, "a test 1")
ROWS = {"values": np.array([0.5, 0.25], np.float32), "time": np.array([1.0, 2.0])}


def reopened(root: Path) -> FeatureStore:
    compact(local(root))
    return FeatureStore(root)


def test_it_is_current_until_what_it_is_made_of_changes(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    store = reopened(store_root)
    assert not MADE.is_current(store, "a")
    MADE.publish(store, "a", ROWS)
    store = reopened(store_root)
    assert MADE.is_current(store, "a")
    assert store.read("a", "mean_smile").tolist() == [0.5, 0.25]
    provenance = store.attributes("a", "mean_smile")["provenance"]
    assert (provenance["settings"], provenance["code"]) == ({"window_s": 2}, "a test 1")
    assert list(provenance["features"]) == ["openface"]
    for other in (replace(MADE, settings={"window_s": 3}), replace(MADE, code="a test 2")):
        assert not other.is_current(store, "a")
    with pytest.raises(StoreError, match=naming("'openface@b'", "mean_smile")):
        replace(MADE, features=("openface", "openface@b")).is_current(store, "a")


def test_the_clock_of_a_track_decides_and_that_of_another_does_not(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    with FeatureWriter(local(store_root), "a", replace(SPEC, name="smile"), frames=False, track="b") as out:
        for name, rows in ROWS.items():
            out.write(name, rows)
        out.caveat(Caveat.SHORT_SOUND)
        out.publish("f" * 64, {})
    store = reopened(store_root)
    of_both = replace(MADE, features=("openface", "smile@b"))
    clocks = [{"a": {"b": Clock("b", (0.0,), (start,)).stored}} for start in (1.0, 2.0)]
    assert len({of_both.fingerprint(store, "a", clock) for clock in clocks}) == 2
    assert len({MADE.fingerprint(store, "a", clock) for clock in clocks}) == 1
    of_both.publish(store, "a", ROWS)
    assert reopened(store_root).session("a").caveats["mean_smile"] == [Caveat.SHORT_SOUND]


def test_other_times_of_the_frames_make_it_out_of_date(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    made = reopened(store_root)
    MADE.publish(made, "a", ROWS)
    assert MADE.is_current(reopened(store_root), "a")
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(10) / 5)
        out.publish("e" * 64, {})
    assert not MADE.is_current(reopened(store_root), "a")


def test_status_says_what_is_older_than_what_it_is_made_of(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    publish_openface(store_root, "b", 10)
    store = reopened(store_root)
    for session in ("a", "b"):
        MADE.publish(store, session, ROWS)
    of_both = replace(MADE, spec=replace(SPEC, name="of_both"), features=("openface", "mean_smile"))
    of_both.publish(reopened(store_root), "a", ROWS)

    def outdated() -> dict[str, str]:
        storage = local(store_root)
        by_catalogue = [status for name in ("a", "b") for status in reopened(store_root).statuses(name)]
        by_records, from_the_catalogue = (
            {f"{status.session_id}/{status.feature}": status.outdated for status in with_outdated(statuses, storage)}
            for statuses in (scan(storage), sorted(by_catalogue, key=lambda status: status.sort_key))
        )
        assert by_records == from_the_catalogue
        return {name: why for name, why in by_records.items() if why}

    assert outdated() == {}
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(10) / 5)
        out.publish("e" * 64, {})
    other_times = "made with other times of the frames, or other clocks"
    assert outdated() == {"a/mean_smile": other_times, "a/of_both": other_times}
    publish_openface(store_root, "a", 12, fingerprint="d" * 64)
    earlier = "made of an earlier version of openface"
    assert outdated() == {"a/mean_smile": earlier, "a/of_both": earlier}
    run = CliRunner()
    for arguments in ([], ["--session", "a"]):
        shown = " ".join(run.invoke(app, ["status", str(store_root), *arguments]).output.split())
        assert missing(shown, "mean_smile", earlier) == []
        entries = json.loads(run.invoke(app, ["status", str(store_root), *arguments, "--json"]).output)["features"]
        assert {entry["outdated"] for entry in entries if entry["session_id"] == "a"} == {None, earlier}
    replace(MADE, settings={"window_s": 3}).publish(reopened(store_root), "a", ROWS)
    assert outdated() == {"a/of_both": "made of an earlier version of mean_smile"}


def test_status_says_that_a_clock_has_changed_or_a_source_is_gone(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    with FeatureWriter(local(store_root), "a", replace(SPEC, name="smile"), frames=False, track="b") as out:
        for name, rows in ROWS.items():
            out.write(name, rows)
        out.publish("f" * 64, {})
    replace(MADE, features=("openface", "smile@b")).publish(reopened(store_root), "a", ROWS)
    made = reopened(store_root)

    def why() -> str:
        return {entry.feature: entry for entry in with_outdated(scan(made.storage), made.storage)}[
            "mean_smile"
        ].outdated

    assert why() == ""
    index = pd.DataFrame({"session_id": ["a"]})
    index.attrs = {"clocks": {"a": {"b": Clock("b", (0.0,), (1.0,)).stored}}}
    write_clip_index(index, made.storage)
    assert missing(why(), "frames", "clocks") == []
    shutil.rmtree(store_root / "a/smile@b")
    assert missing(why(), "smile@b", "gone") == []
