"""Everything that keeps or shows a store works on features that this installation does not know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, write_features
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.dataset import ClipDataset
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.maintenance.archive import archive
from storyframes.store.maintenance.garbage import collect
from storyframes.store.maintenance.intact import is_intact
from storyframes.store.maintenance.verification import verify
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status

ROWS = 60
AURA = FeatureSpec(
    "aura",
    "what nobody here knows",
    {
        "values": ArraySpec(Axis.FRAME, "float32", "colours", (3,), ("column",), columns=("r", "g", "b")),
        "seen": ArraySpec(Axis.FRAME, "uint8", "1 where it is seen", fill=0),
        "corners": ArraySpec(Axis.FRAME, "int32", "of what", (4, 2), ("corner", "xy"), fill=-1, joints=tuple("abcd")),
        "colour": ArraySpec(Axis.HAND, "float64", "of each hand", units="nm"),
    },
    groups={"warm": slice(0, 1), "cold": slice(1, 3)},
    mask="seen",
)
ZEAL = FeatureSpec("zeal", "of one session", {"values": ArraySpec(Axis.UTTERANCE, "float16", "how much")})


def aura(seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = {Axis.FRAME: ROWS, Axis.HAND: 7}
    return {
        name: (9 * generator.normal(size=(rows[each.axis], *each.shape))).astype(each.dtype)
        for name, each in AURA.arrays.items()
    }


def publish(root: Path, session: str, spec: FeatureSpec, values: dict[str, np.ndarray], **attributes: object) -> None:
    with FeatureWriter(local(root), session, spec) as out:
        for name, rows in values.items():
            out.write(name, rows)
        out.attributes |= attributes
        out.publish("f" * 64, {})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=2, frames=ROWS)).root
    for number, session in enumerate(("s00", "s01")):
        publish(root, session, AURA, aura(number), palette="spring")
    publish(root, "s01", ZEAL, {"values": np.ones(4, np.float16)})
    record_attempt(local(root), "s00", "zeal", Status.FAILED, "no zeal", "")
    catalogue.compact(local(root))
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "features", copy_function=shutil.copy2))


def test_it_is_read_and_described(made: Path) -> None:
    store = FeatureStore(made)
    assert store.all_features == [*FEATURES, "aura", "zeal"]
    assert store.features("s00")[0] == "aura"
    assert store.columns("s00", "aura") == ("r", "g", "b")
    assert store.describe("s00", "aura", "corners").shape == (ROWS, 4, 2)
    assert store.attributes("s00", "aura")["palette"] == "spring"
    assert store.attributes("s00", "aura")["groups"] == {"warm": [0, 1], "cold": [1, 3]}
    for name, values in aura(1).items():
        np.testing.assert_array_equal(store.read("s01", "aura", 3, 6, array=name), values[3:6])
        np.testing.assert_array_equal(store.view("s01", "aura", array=name), values)
    with pytest.raises(StoreError, match=naming("s00/aura", "'halo'")):
        store.columns("s00", "aura", "halo")
    with pytest.raises(StoreError, match="s00/zeal is failed: no zeal"):
        store.spec("s00", "zeal")
    with pytest.raises(StoreError, match=naming("s00", "'aurora'")):
        store.spec("s00", "aurora")


def test_an_extractor_cannot_say_otherwise_than_its_specification(tmp_path: Path) -> None:
    create_store(tmp_path / "features")
    publish(tmp_path / "features", "s00", AURA, aura(0), feature="openface", mask="corners", groups={}, about="lies")
    attributes = FeatureStore(tmp_path / "features").attributes("s00", "aura")
    assert (attributes["feature"], attributes["mask"], attributes["about"]) == ("aura", "seen", AURA.about)
    assert FeatureStore(tmp_path / "features").spec("s00", "aura") == AURA


@pytest.mark.slow
def test_verify_finds_its_damage_and_gc_its_old_versions(root: Path) -> None:
    storage = local(root)
    assert list(verify(storage)) == []
    (before,) = (entry.record for entry in record_status.scan(storage, "s00") if entry.feature == "aura")
    assert before is not None
    assert is_intact(storage, before)
    publish(root, "s00", AURA, aura(5))
    assert list(verify(storage)) == []
    assert [removal.path for removal in collect(storage, 0)] == [f"s00/aura/{before.version}"]
    np.testing.assert_array_equal(FeatureStore(root).read("s00", "aura"), aura(5)["values"])
    (shard,) = root.glob("s00/aura/*/corners/c/0/0/0")
    content = bytearray(shard.read_bytes())
    content[10] ^= 1
    shard.write_bytes(content)
    (finding,) = verify(storage)
    assert (finding.session_id, finding.feature) == ("s00", "aura")
    assert finding.path.endswith("corners/c/0/0/0")


@pytest.mark.slow
def test_an_archive_has_all_that_the_store_has(root: Path, tmp_path: Path) -> None:
    target = create_store(tmp_path / "archive")
    list(archive(local(root), target))
    ours, theirs = FeatureStore(root), FeatureStore(tmp_path / "archive")
    assert list(verify(target)) == []
    for session, feature in (("s00", "aura"), ("s01", "aura"), ("s01", "zeal")):
        assert theirs.spec(session, feature) == ours.spec(session, feature)
        assert theirs.attributes(session, feature) == ours.attributes(session, feature)
        for name in ours.spec(session, feature).arrays:
            np.testing.assert_array_equal(
                theirs.read(session, feature, array=name), ours.read(session, feature, array=name)
            )
    for one, other in zip(ClipDataset(root, ["aura"]), ClipDataset(tmp_path / "archive", ["aura"]), strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(other[name], values)


def test_a_notebook_sees_it_with_its_names(made: Path) -> None:
    tree = FeatureStore(made).session("s00").to_xarray()
    np.testing.assert_array_equal(tree["aura/values"].sel(column="g"), aura(0)["values"][:, 1])
    np.testing.assert_array_equal(tree["aura/corners"].sel(corner="c"), aura(0)["corners"][:, 2])
    assert tree["aura/colour"].dims == ("hand",)
    assert tree["aura"].attrs["mask"] == "seen"
    assert tree["aura/frame_time"].size == ROWS


def test_a_notebook_sees_a_session_whose_features_are_of_two_recordings(root: Path) -> None:
    publish(root, "s00", FEATURES["frames"], {"time": np.arange(ROWS + 1) / 15})
    catalogue.compact(local(root))
    tree = FeatureStore(root).session("s00").to_xarray()
    assert tree["frames/frame_time"].size == ROWS + 1
    assert "frame_time" not in tree["aura"].coords
    assert tree["aura/values"].shape == (ROWS, 3)


def command(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "250"})
    assert result.exit_code == 0, result.output
    return result.output


def test_status_and_show_have_it_behind_those_that_are_known(made: Path) -> None:
    heading = command("status", made).splitlines()[1].split("┃")
    names = [cell.strip() for cell in heading if cell.strip()]
    assert names == ["session", *FEATURES, "aura", "zeal"]
    assert "failed s00 zeal: no zeal" in command("status", made)
    entries = json.loads(command("status", made, "--json"))["features"]
    assert {entry["rows"] for entry in entries if entry["feature"] == "aura"} == {ROWS}
    lines = command("show", made, "s01").splitlines()
    first_words = [line.split("│")[1].strip() for line in lines if line.count("│") == 7]
    assert first_words[: len(FEATURES) + 2] == [*FEATURES, "aura", "zeal"]


def test_the_clip_index_has_a_column_for_it(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    write = {
        "sessions": pd.DataFrame({"session_id": ["s00", "s01"], "participant_id": ["a", "b"], "video": "v.avi"}),
        "phases": pd.DataFrame({"session_id": ["s00", "s01"], "phase": "talk", "start_s": 0.0, "end_s": 4.0}),
        "ratings": pd.DataFrame({"session_id": ["s00", "s01"], "story_id": "t", "position": 1, "empathy": 3}),
        "stories": pd.DataFrame({"story_id": ["t"], "text": ["One day."]}),
    }
    for name, table in write.items():
        table.to_csv(study / f"{name}.csv", index=False)
    root = tmp_path / "features"
    create_store(root)
    for session in ("s00", "s01"):
        publish(root, session, FEATURES["frames"], {"time": np.arange(ROWS) / 15})
    publish(root, "s00", AURA, aura(0))
    record_attempt(local(root), "s01", "zeal", Status.FAILED, "no zeal", "")
    catalogue.compact(local(root))
    (tmp_path / "c.toml").write_text("[clips]\nwindow = 20\nstride = 20\n")
    command("index", study, root, "--config", tmp_path / "c.toml")
    index = FeatureStore(root).clips()
    assert [name for name in index if name.startswith("has_")] == [
        f"has_{name}" for name in (*FEATURES, "aura", "zeal")
    ]
    assert list(index.groupby("session_id")["has_aura"].all()) == [True, False]
    assert not index["has_zeal"].any()
    with pytest.raises(ValueError, match=naming("6 clips", "'aura'", "s01", "'has_aura'")):
        ClipDataset(root, ["aura"])
    assert set(ClipDataset(root, ["aura"], "has_aura").clips["session_id"]) == {"s00"}


def test_an_index_older_than_a_feature_is_not_recommended_as_a_filter(root: Path) -> None:
    shutil.rmtree(root / "s01" / "aura")
    catalogue.compact(local(root))
    assert "has_aura" not in FeatureStore(root).clips()  # it was made before
    with pytest.raises(ValueError, match=naming("'aura'", "s01", "drop_missing")):
        ClipDataset(root, ["aura"])
    assert len(ClipDataset(root, ["aura"], drop_missing=True)) == 24
