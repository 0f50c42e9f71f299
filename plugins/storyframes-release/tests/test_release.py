"""Releases: what may be in one, that nothing in one tells of whom it is, and that it is as good as the original."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
import zarr
from planted_store import BEFORE, PLANTED, SESSIONS, SETTINGS, settings_of
from support.messages import missing
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.clip_index import SPLITS
from storyframes.features import FEATURES, STORIES
from storyframes.store import maintenance
from storyframes_release.release.copying import HIDDEN_CAVEAT
from storyframes_release.release.ids import Key
from storyframes_release.release.manifest import verify_release
from storyframes_release.release.run import make_release
from storyframes_release.release.settings import ReleaseError
from tasks.clip_index.index import write_clip_index


@dataclass(frozen=True)
class Made:
    """The store, the release and the key of it."""

    store: FeatureStore
    folder: Path
    names: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def made(original: FeatureStore, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp_path = tmp_path_factory.mktemp("release")
    config = tmp_path / "release.toml"
    config.write_text(SETTINGS)
    folder, key = tmp_path / "given", tmp_path / "key.json"
    result = CliRunner().invoke(
        app, ["release", original.storage.location, "--out", str(folder), "--config", str(config), "--key", str(key)]
    )
    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    return Made(original, folder, json.loads(key.read_text())["names"])


def everything(folder: Path) -> dict[str, bytes]:
    """All that is in a release, by where: names, bytes, and what is in compressed tables and arrays."""
    found = {"the names of its files": "\n".join(str(path.relative_to(folder)) for path in folder.rglob("*")).encode()}
    for path in folder.rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_bytes()
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found[f"{path} decoded"] = f"{table.schema.metadata}\n{table.schema}\n{table.to_pylist()}".encode()
        if path.name == "zarr.json" and json.loads(path.read_bytes())["node_type"] == "array":
            array: Any = zarr.open_array(path.parent, mode="r")
            found[f"{path.parent} decoded"] = np.ascontiguousarray(array[...]).tobytes()
    return found


@pytest.mark.slow
@pytest.mark.end_to_end
def test_nothing_in_a_release_tells_of_whom_it_is(made: Made) -> None:
    store = b"\n".join(everything(Path(made.store.storage.location)).values()).lower()
    contents = {where: content.lower() for where, content in everything(made.folder).items()}
    assert len(contents) > 100
    assert list(made.folder.rglob(".*")) == []
    for planted in PLANTED:
        assert planted.lower().encode() in store, planted
        for where, content in contents.items():
            assert planted.lower().encode() not in content, (planted, where)
    for dtype in (np.float32, np.float64):
        secret = np.array(BEFORE, dtype).tobytes().lower()
        assert dtype == np.float64 or secret in store
        assert not [where for where, content in contents.items() if secret in content]
    epoch = np.float64(1710666000).tobytes().lower()  # of a device whose clock is the date
    assert epoch in store
    assert not [where for where, content in contents.items() if epoch in content]
    year = re.compile(rb"202[4-6]\d{4}t\d{6}|202[4-6]-\d\d-\d\dt")
    assert year.search(store)
    assert not [where for where, content in contents.items() if year.search(content)]
    for path in made.folder.rglob("*"):
        assert path.stat().st_mtime == 946_684_800
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.slow
def test_the_release_is_a_sound_store_with_the_same_values(made: Made) -> None:
    store = FeatureStore(made.folder / "features")
    assert list(maintenance.verify(store.storage)) == []
    assert store.sessions == ["s0001", "s0002", "s0003"]
    assert sorted(made.names["sessions"].values()) == store.sessions
    clips = store.clips()
    assert clips["session_id"].is_monotonic_increasing
    groups = clips.groupby("split_group")["participant_id"].unique()
    assert [list(people) for people in groups] == [["p0001"], ["p0002"], ["p0003"]]
    assert clips.attrs["schemes"] == {"empathy": "ordinal", "valence": "interval", "mood": "nominal"}
    assert not clips["has_glove"].any()
    assert set(store.all_features) == {"frames", "openface", "opensmile", "sbert", "gesture", "label.valence"}
    for old, new in made.names["sessions"].items():
        face = store.read(new, "openface")
        columns = store.columns(new, "openface")
        places = [FEATURES["openface"].columns.index(name) for name in columns]
        assert columns[:2] == ("AU01_r", "AU02_r")
        np.testing.assert_array_equal(face, made.store.read(old, "openface")[:, places])
        for feature, array in (
            ("openface", "valid"),
            ("opensmile", "per_frame"),
            ("sbert", "values"),
            ("frames", "time"),
        ):
            np.testing.assert_array_equal(
                store.read(new, feature, array=array), made.store.read(old, feature, array=array)
            )
        gesture = store.spec(new, "gesture")
        assert (list(gesture.arrays), gesture.mask) == (["values", "measured"], "measured")
        assert gesture.columns == ("wave", "nod")
        np.testing.assert_array_equal(store.read(new, "gesture"), made.store.read(old, "gesture")[:, :2])
        assert store.attributes(new, "sbert")["speakers"] == ["participant", "speaker_2"]
        assert store.attributes(new, "openface")["stamps"] == sorted([HIDDEN_CAVEAT, "interlaced video"])
    assert store.story_ids("sbert") == tuple(sorted(made.names["stories"].values()))
    old_of = {new: old for old, new in made.names["stories"].items()}
    before = [made.store.story_ids("sbert").index(old_of[new]) for new in store.story_ids("sbert")]
    np.testing.assert_array_equal(store.read(STORIES, "sbert"), made.store.read(STORIES, "sbert")[before])


@pytest.mark.slow
def test_it_trains_on_the_same_clips(made: Made) -> None:
    store = FeatureStore(made.folder / "features")
    inputs = [ClipInput("openface", ["action_units"]), ClipInput("opensmile", rate=20), "sentence", "story", "label"]
    before = ClipDataset(made.store, inputs, "session_id != 'withdrawn-2024-05-05'")
    after = ClipDataset(store, inputs)
    assert len(before) == len(after) > 20
    place = {clip_id: number for number, clip_id in enumerate(after.clips["clip_id"])}
    phases = made.names["phases"] | {"reflection": "reflection"}
    place_of_mood = {"calm": 1, "torn": 3}
    for number, clip in enumerate(before.clips.itertuples()):
        new = f"{made.names['sessions'][clip.session_id]}:{phases[clip.phase]}:{clip.start_frame:06d}:{clip.position}"
        same, other = before[number], after[place[new]]
        row = after.clips.iloc[place[new]]
        assert row["participant_id"] == made.names["participants"][clip.participant_id]
        assert row["valence"] == clip.valence
        assert row["valence_weight"] == clip.valence_weight
        assert row["reflected"]
        assert row["mood"] == clip.mood
        assert after.clips["mood"].cat.categories.get_loc(row["mood"]) == place_of_mood[clip.mood]
        assert set(same) == set(other)
        for name in set(same) - {"index"}:
            np.testing.assert_array_equal(same[name], other[name], name)


@pytest.mark.slow
@pytest.mark.needs("mlcroissant")
def test_machines_and_people_can_read_what_it_is(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    import mlcroissant

    issues = mlcroissant.Dataset(jsonld=str(made.folder / "croissant.json"))
    assert issues.metadata.name == "Stories and faces"
    assert (issues.metadata.ctx.issues.errors, issues.metadata.ctx.issues.warnings) == (set(), set())
    assert "is not standard" not in caplog.text
    for table in ("catalogue", "clips"):
        stored = pq.read_table(made.folder / f"features/{table}.parquet").to_pandas()
        records = list(issues.records(table))
        assert len(records) == len(stored) > 0
        assert {f"{table}/{column}" for column in stored} == {*records[0]}
        for number, record in enumerate(records):
            for field, value in record.items():
                value = value.decode() if isinstance(value, bytes) else value
                before = stored[field.partition("/")[2]].iloc[number]
                if field == "catalogue/stamps":  # caveats, of which there are several
                    assert [one.decode() for one in value] == [*before]
                    continue
                assert value == before or (pd.isna(value) and pd.isna(before)), (field, number)
    declared = json.loads((made.folder / "croissant.json").read_text())["recordSet"][1]["field"]
    types = {field["name"]: field["dataType"] for field in declared}
    assert [types[f"clips/{name}"] for name in ("split_group", "start_s", "reflected", "mood")] == [
        "sc:Integer",
        "sc:Float",
        "sc:Boolean",
        "sc:Text",
    ]
    cited = yaml.safe_load((made.folder / "CITATION.cff").read_text())
    assert (cited["type"], cited["license"], cited["authors"]) == ("dataset", "CC-BY-4.0", [{"name": "The authors"}])
    assert (str(cited["date-released"]), cited["url"]) == ("2026-11-22", "https://example.org/stories")
    columns = list(issues.records("columns"))
    assert columns[1] == {
        "columns/feature": "openface",
        "columns/array": "values",
        "columns/place": 1,
        "columns/column": "AU02_r",
        "columns/unit": "0 to 5",
    }
    of_openface = [row["columns/column"] for row in columns if row["columns/feature"] == "openface"]
    assert of_openface == [*FeatureStore(made.folder / "features").columns("s0001", "openface")]
    (values,) = (each for each in issues.metadata.record_sets if each.name == "openface")
    shapes = {each.name: (each.array_shape_tuple, str(each.data_types[0])) for each in values.fields}
    number = "https://schema.org/"
    assert shapes == {
        "openface/values": ((-1, 44), f"{number}Float"),
        "openface/valid": ((-1,), f"{number}Integer"),
    }
    sets = {each.name: each for each in issues.metadata.distribution if each.name.endswith(".zarr")}
    assert {"openface.zarr", "sbert.zarr", "stories/sbert.zarr"} <= {*sets}
    for name, files in sets.items():
        found = {path for pattern in files.includes for path in made.folder.glob(pattern)}
        found -= {path for pattern in files.excludes or () for path in made.folder.glob(pattern)}
        of = {path.relative_to(made.folder / "features").parts[0] for path in found}
        assert of == ({"stories"} if name.startswith("stories/") else {"s0001", "s0002", "s0003"}), name
    card = (made.folder / "README.md").read_text()
    assert "3 sessions of 3 participants, 0.2 minutes, 7 features" in card
    assert "**openface** (3 sessions, 15 rows a second): OpenFace 2: gaze, action_units" in card
    assert "in 0 to 5: AU01_r AU02_r AU04_r … AU45_r (17); 0 or 1:" in card
    assert not re.search("landmarks|pixels", card)
    assert "| train | 72 | 3 | 3 |" in card
    assert "| `empathy` | ordinal | 1 to 5 | 72 |" in card
    assert "| `mood` | nominal | calm, torn | 72 |" in card
    assert "We extracted gaze and action units with OpenFace 2 [@openface], in storyframes 0.30.0 (extractor 3;" in card
    assert "@inproceedings{openface," in card
    assert "@inproceedings{dope," not in card
    assert "| openface | interlaced video | 3 |" in card
    assert "sessions that their owners left out: 1\n" in card
    assert "other cameras and microphones, whose clocks may tell dates: 1\n" in card


LOAD = """
import json, sys
from datasets import load_dataset

clips = load_dataset(sys.argv[1], cache_dir=sys.argv[2])
catalogue = load_dataset(sys.argv[1], "catalogue", cache_dir=sys.argv[2])
print(json.dumps([{split: table.to_list() for split, table in clips.items()}, [*catalogue["catalogue"]["feature"]]]))
"""


@pytest.mark.slow
@pytest.mark.needs("datasets")
def test_datasets_loads_the_clips_with_their_splits(original: FeatureStore, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(original.storage.location, root)
    index = original.clips()
    split_of = dict(zip(SESSIONS, ("train", "test", "val", "train"), strict=True))
    index["split"] = index["session_id"].map(split_of)
    write_clip_index(index, local(root))
    make_release(FeatureStore(root), tmp_path / "out", settings_of(tmp_path))
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    command = [sys.executable, "-c", LOAD, str(tmp_path / "out"), str(tmp_path / "cache")]
    loaded = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    clips, catalogued = json.loads(loaded.stdout)
    assert list(clips) == [*SPLITS]
    assert {"openface", "label.valence"} < {*catalogued}
    released = FeatureStore(tmp_path / "out/features").clips()
    assert sum(map(len, clips.values())) == len(released)
    names = json.loads((tmp_path / "out.key.json").read_text())["names"]["sessions"]
    for session, split in list(split_of.items())[:3]:
        before = released[released["session_id"] == names[session]]
        assert len(before) == len(clips[split]) == 24
        for row, (_, clip) in zip(clips[split], before.iterrows(), strict=True):
            assert row.keys() == {*released}
            for name in ("clip_id", "session_id", "start_frame", "start_s", "empathy", "valence", "mood", "reflected"):
                assert row[name] == clip[name], name


@pytest.mark.slow
def test_verify_sees_what_is_no_part_of_it(made: Made, tmp_path: Path) -> None:
    def verified(folder: Path) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["release", "verify", str(folder)])
        as_json = CliRunner().invoke(app, ["release", "verify", str(folder), "--json"])
        assert as_json.exit_code == result.exit_code
        if result.exit_code < 2:
            content = json.loads(as_json.stdout)
            assert content["sound"] == (result.exit_code == 0)
            assert content["problems"] == ([] if content["sound"] else result.stdout.splitlines())
        return result.exit_code, result.output.partition("Next: ")[0]

    assert verified(made.folder)[0] == 0
    folder = tmp_path / "given"
    shutil.copytree(made.folder, folder)
    (folder / "names.json").write_bytes((made.folder.parent / "key.json").read_bytes())
    (folder / "features/notes.txt").write_text("mine")
    (folder / "README.md").write_text("changed")
    (folder / "CITATION.cff").unlink()
    (folder / "link").symlink_to("README.md")
    (folder / "features/anna muster").mkdir()
    os.mkfifo(folder / "pipe")
    code, said = verified(folder)
    assert code == 1
    assert sorted(line.partition(":")[0] for line in said.splitlines()) == [
        "CITATION.cff", "README.md", "features/anna muster", "features/notes.txt", "link", "names.json", "pipe",
    ]  # fmt: skip
    assert missing(said, "names.json", "leads") == []
    (folder / "manifest.json").write_text("{")
    assert verified(folder)[0] == 2
    with pytest.raises(ReleaseError, match="is no release"):
        verify_release(tmp_path)


@pytest.mark.slow
def test_verify_sees_every_small_change(made: Made, tmp_path: Path) -> None:
    def flip(folder: Path) -> str:
        path = next(folder.glob("features/s0001/openface/*/values/c/0/0"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        return "is not as it was released"

    def link(folder: Path) -> str:
        (folder / "README.md").rename(tmp_path / "README.md")
        (folder / "README.md").symlink_to(tmp_path / "README.md")
        return "README.md: is a link"

    def rename(folder: Path) -> str:
        (folder / "features/s0001").rename(folder / "features/s0007")
        return "does not belong to the release"

    def slip_in(folder: Path) -> str:
        version = next(folder.glob("features/s0001/openface/2*"))
        shutil.copytree(version / "values", version / "landmarks")
        return "landmarks/zarr.json: does not belong to the release"

    def take_out_of_the_manifest(folder: Path) -> str:
        content = json.loads((folder / "manifest.json").read_bytes())
        del content["files"]["README.md"]
        (folder / "manifest.json").write_text(json.dumps(content))
        return "README.md: does not belong to the release"

    for change in (flip, link, rename, slip_in, take_out_of_the_manifest):
        folder = tmp_path / change.__name__
        shutil.copytree(made.folder, folder)
        said = change(folder)
        assert [line for line in verify_release(folder) if said in line], change
    newer = json.loads((made.folder / "manifest.json").read_bytes()) | {"format": 2}
    (folder / "manifest.json").write_text(json.dumps(newer))
    with pytest.raises(ReleaseError, match="of a newer storyframes"):
        verify_release(folder)


def test_new_names_tell_no_order_and_never_meet() -> None:
    ids = [f"2024-03-{day:02d}" for day in range(1, 31)]
    key = Key("5e" * 32)
    key.number("sessions", ids)
    key.number("participants", ids)
    orders = [[int(key.names[kind][one][1:]) for one in ids] for kind in ("sessions", "participants")]
    assert all(sorted(order) == list(range(1, 31)) for order in orders)
    assert abs(np.corrcoef(orders[0], range(30))[0, 1]) < 0.5
    assert abs(np.corrcoef(*orders)[0, 1]) < 0.5
    key.number("sessions", [*ids, "2024-02-01", "2024-02-02"])
    assert sorted(key.names["sessions"].values()) == [f"s{number:04d}" for number in range(1, 33)]
    assert key.digest("version") == Key("5e" * 32).digest("version") != Key("5f" * 32).digest("version")


@pytest.mark.slow
def test_the_same_key_gives_the_same_names_and_another_others(original: FeatureStore, tmp_path: Path) -> None:
    small = settings_of(
        tmp_path, SETTINGS.partition("openface =")[0].replace('labels = ["empathy", "valence", "mood"]', "")
    )
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    make_release(original, first, small)
    key = tmp_path / "first.key.json"
    make_release(original, again, small, key)
    assert {path: content for path, content in everything(first).items() if "names of" in path} == {
        path: content for path, content in everything(again).items() if "names of" in path
    }
    assert (first / "manifest.json").read_bytes() == (again / "manifest.json").read_bytes()
    make_release(original, other, small)
    assert (first / "manifest.json").read_bytes() != (other / "manifest.json").read_bytes()
    index = FeatureStore(first / "features").clips()
    assert index["empathy"].isna().all()
    assert "valence" not in index
    assert not index["has_openface"].any()
