"""Releases: what may be in one, that nothing in one tells of whom it is, and that it is as good as the original."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlcroissant
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
import zarr
from support.stores import local
from support.synthetic_features import FPS, STORY_IDS, StudySpec, publish, random_features, study_of, tables
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, STORIES
from storyframes.label_curves import curve_spec
from storyframes.release.copying import HIDDEN_CAVEAT
from storyframes.release.manifest import verify_release
from storyframes.release.run import make_release
from storyframes.release.sensitivity import Sensitive, sensitivity
from storyframes.release.settings import ReleaseError, ReleaseSettings, read_settings
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue, maintenance
from storyframes.store.durable import write_atomically
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status
from tasks.index import build_clip_index, write_clip_index

SESSIONS = ["anna-2024-03-17", "bertil-2024-03-18", "cleo-2024-04-01", "withdrawn-2024-05-05"]
STORY = "hugos-lost-dog"
PLANTED = [
    *(
        "anna",
        "bertil",
        "cleo",
        "withdrawn",
        "2024-03",
        "2024-04",
        "hugo",
        "Muster",
        "lab-machine-7",
        "/home/",
    ),
    *("rater-", "quarrel", "greta", "SECRET", "1710666000", "story_share", "f00df00d", "depressed", "ophelia"),
    *("wrote of zebedee", "17.03.2024"),
]
"""Each stands somewhere in the store, and nowhere in a release; in small and in capital letters."""
PLUG_IN = FeatureSpec(
    "gesture",
    "gestures of Anna Muster, as Hugo sees them",
    {
        "values": ArraySpec(
            Axis.FRAME, "float32", "made at lab-machine-7", shape=(3,), dims=("annas",),
            columns=("wave", "nod", "hugos_view"), units="Muster",
        ),
        "hugo_was_there": ArraySpec(Axis.FRAME, "uint8", "whether Hugo was there", fill=0),
        "diary": ArraySpec(Axis.FRAME, "uint8", "bytes", shape=(8,), dims=("letters",), fill=0),
    },
    groups={"annas_moves": slice(0, 2)},
    mask="hugo_was_there",
)  # fmt: skip
BEFORE = -7777.25  # what stands in columns that are not released
SETTINGS = """
title = "Stories and faces"
description = "Action units of people who hear stories."
license = "CC-BY-4.0"
version = "1.0"
authors = ["The authors"]
url = "https://example.org/stories"
date = "2026-11-22"
labels = ["empathy", "valence", "mood"]
phases = ["reflection"]
leave_out = ["withdrawn-2024-05-05"]
allow_biometric = true
allow_text_vectors = true

[features]
frames = "all"
openface = ["action_units", "gaze", "success"]
opensmile = "all"
sbert = "all"
gesture = ["wave", "nod"]
"label.valence" = "all"
"stories/sbert" = "all"
"""


@dataclass(frozen=True)
class Made:
    """The store, the release and the key of it."""

    store: FeatureStore
    folder: Path
    names: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("original-of-anna-muster") / "features"
    create_store(root)
    for number, session in enumerate(SESSIONS):
        _write_session(root, session, number)
    vectors = np.random.default_rng(99).normal(size=(len(STORY_IDS), 384)).astype(np.float32)
    ids = [f"{STORY}-{number}" for number in range(len(STORY_IDS))]
    publish(root, STORIES, "sbert", {"values": vectors}, {"story_ids": ids, "texts": ["the quarrel with greta"]})
    record_attempt(local(root), SESSIONS[0], "dope", Status.FAILED, "/home/hugo/anna.avi is gone", "f")
    for name in ("inputs.json", "notes-of-hugo.txt"):
        write_atomically(root / name, b'{"/home/hugo/anna.avi": "lab-machine-7"}')
    catalogue.compact(local(root))
    study = tables(StudySpec(sessions=4), SESSIONS)
    study["sessions"]["participant_id"] = ["Anna.Muster", "bertil-1", "cleo-1", "withdrawn-1"]
    study["ratings"]["story_id"] = study["ratings"]["story_id"].str.replace("story", f"{STORY}-")
    spec = WindowSpec(window=13, stride=5, fps=FPS, split_shares=(1, 0, 0))
    index = build_clip_index(study_of(study), spec, FeatureStore(root)).clips
    generator = np.random.default_rng(1)
    index["valence"] = generator.random(len(index)).astype(np.float32)
    index["valence_weight"] = np.float32(0.5)
    index["rater-hugo"] = pd.Categorical(["depressed"] * len(index))
    withdrawn = index["session_id"] == SESSIONS[3]
    moods = [
        "never on 17.03.2024",
        "calm",
        "wrote of Zebedee",
        "torn",
    ]  # in the order of the scheme; the first by nobody
    index["mood"] = pd.Categorical.from_codes(np.where(withdrawn, 2, np.arange(len(index)) % 2 * 2 + 1), moods)
    index["reflected"] = True
    index["told_to"] = pd.Categorical(["the robot", "Bertil-1"] * (len(index) // 2))
    index["seen_by"] = "Hugo"  # a column that only a later version has
    index["covered_greta-cam"] = np.float32(1)
    index.attrs = {
        "schemes": {
            "empathy": "ordinal",
            "valence": "interval",
            "mood": "nominal",
            "told_to": "nominal",
            "rater-hugo": "nominal",
        },
        "clocks": {SESSIONS[0]: {"greta-cam": [[1710666000.0], [0.0]]}},
    }
    write_clip_index(index, local(root))
    return FeatureStore(root)


def _write_session(root: Path, session: str, number: int) -> None:
    features = random_features(np.random.default_rng(number), 60)
    features = {name: features[name] for name in ("frames", "openface", "opensmile", "glove", "sbert")}
    face = features["openface"]["values"]
    for group in ("landmarks_2d", "landmarks_3d", "shape", "eye_landmarks"):
        face[:, FEATURES["openface"].groups[group]] = BEFORE
    provenance = {"inputs": {"video": {"path": "anna.avi", "sha256": "f00df00d"}}, "code": "lab-machine-7"}
    for feature, values in features.items():
        with FeatureWriter(local(root), session, FEATURES[feature]) as out:
            for name, rows in values.items():
                out.write(name, np.clip(rows, 0, 1) if name == "speaker" else rows)
            out.attributes |= {"speakers": ["participant", "Greta Muster"], "host": "lab-machine-7", "session": session}
            out.attributes |= {"feature_set": "set of Hugo", "started_at": "2024-03-17T10:00:00", "about": "Anna"}
            out.quality = {"hugos_opinion": 1.0}
            out.caveats |= {"interlaced video", "ask Hugo about Anna"}
            out.publish(f"f00df00d{feature}", provenance)
    with FeatureWriter(local(root), session, PLUG_IN) as out:
        values = np.random.default_rng(number).normal(size=(60, 3)).astype(np.float32)
        values[:, 2] = BEFORE
        out.write("values", values)
        out.write("hugo_was_there", np.arange(60, dtype=np.uint8) % 2)
        out.write("diary", np.tile(np.frombuffer(b"SECRET!!", np.uint8), (60, 1)))
        out.publish("f00df00d", {"inputs": {"video": {}}})
    for scheme in ("valence", "rater-hugo"):
        with FeatureWriter(local(root), session, curve_spec(f"label.{scheme}")) as out:
            out.write("values", np.arange(5, dtype=np.float32))
            out.write("time", np.arange(5) / 1.0)
            out.write("raters", np.ones(5, np.int16))
            out.attributes["raters"] = ["rater-hugo", "rater-ophelia"]
            out.publish("f00df00d", {})
    with FeatureWriter(local(root), session, curve_spec("label.watch")) as out:
        out.write("values", np.arange(5, dtype=np.float32))
        out.write("time", 1710666000 + np.arange(5) / 1.0)
        out.write("raters", np.ones(5, np.int16))
        out.publish("f00df00d", {})
    with FeatureWriter(local(root), session, FEATURES["frames"], track="greta-cam") as out:
        out.write("time", 1710666000 + np.arange(60) / 15)
        out.publish("f00df00d", {})


def settings_of(tmp_path: Path, text: str = SETTINGS, **changes: str) -> ReleaseSettings:
    for before, after in changes.items():
        assert before.replace("__", " ") in text
        text = text.replace(before.replace("__", " "), after)
    path = tmp_path / "release.toml"
    path.write_text(text)
    return read_settings(path)


@pytest.fixture(scope="module")
def made(original: FeatureStore, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp_path = tmp_path_factory.mktemp("release")
    config = tmp_path / "release.toml"
    config.write_text(SETTINGS)
    folder, key = tmp_path / "given", tmp_path / "key.json"
    result = CliRunner().invoke(
        app, ["release", original.storage.location, str(folder), "--config", str(config), "--key", str(key)]
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


def test_nothing_in_a_release_tells_of_whom_it_is(made: Made) -> None:
    store = b"\n".join(everything(Path(made.store.storage.location)).values()).lower()
    contents = {where: content.lower() for where, content in everything(made.folder).items()}
    assert len(contents) > 100
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


def test_the_release_is_a_sound_store_with_the_same_values(made: Made) -> None:
    store = FeatureStore(made.folder / "features")
    assert list(maintenance.verify(store.storage)) == []
    assert store.sessions == ["s0001", "s0002", "s0003"]
    assert sorted(made.names["sessions"].values()) == store.sessions
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
        assert row["reflected"]
        assert row["mood"] == clip.mood
        assert after.clips["mood"].cat.categories.get_loc(row["mood"]) == place_of_mood[clip.mood]
        assert set(same) == set(other)
        for name in set(same) - {"index"}:
            np.testing.assert_array_equal(same[name], other[name], name)


def test_machines_and_people_can_read_what_it_is(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    issues = mlcroissant.Dataset(jsonld=str(made.folder / "croissant.json"))
    assert issues.metadata.name == "Stories and faces"
    assert (issues.metadata.ctx.issues.errors, issues.metadata.ctx.issues.warnings) == (set(), set())
    assert "is not standard" not in caplog.text
    records = list(issues.records("clips"))
    assert len(records) == len(FeatureStore(made.folder / "features").clips())
    cited = yaml.safe_load((made.folder / "CITATION.cff").read_text())
    assert (cited["type"], cited["license"], cited["authors"]) == ("dataset", "CC-BY-4.0", [{"name": "The authors"}])
    card = (made.folder / "README.md").read_text()
    assert "3 sessions of 3 participants, 7 features" in card
    assert "| openface | interlaced video | 3 |" in card
    assert "1 sessions: left out by their owners" in card
    assert "1 other cameras and microphones" in card


def test_verify_sees_what_is_no_part_of_it(made: Made, tmp_path: Path) -> None:
    def verified(folder: Path) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["release", "verify", str(folder)])
        return result.exit_code, result.output

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
    assert "names.json: is the key that leads back to the ids" in said
    (folder / "manifest.json").write_text("{")
    assert verified(folder)[0] == 2
    with pytest.raises(ReleaseError, match="is no release"):
        verify_release(tmp_path)


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"allow_biometric__=__true": ""}, "'opensmile', as it is asked for, is biometric"),
        ({"allow_text_vectors__=__true": ""}, "'sbert' holds vectors of texts"),
        ({'sbert__=__"all"\n': 'glove = "all"\n'}, "'glove' holds vectors of single words"),
        ({'gesture__=__["wave",__"nod"]': 'gesture = "all"'}, "'gesture' is not built in"),
        ({'["wave",__"nod"]': '["annas_moves"]'}, "there is no column or group 'annas_moves'"),
        ({'["wave",__"nod"]': '["diary", "hugo"]'}, "there is no column or group 'hugo'"),
        ({'"action_units",': '"faces",'}, "there is no column or group 'faces'"),
        ({"label.valence": "label.watch"}, "'label.watch' has times beyond 1,000,000 s (time)"),
        ({"openface__=": "face ="}, "the store has no feature 'face'"),
        ({"openface__=": '"openface@greta-cam" ='}, "tracks are not released"),
        ({'"empathy",__"valence",__"mood"': '"anger"'}, "the clip index has no labels 'anger'"),
        ({'"empathy",__"valence",__"mood"': '"covered_greta-cam"'}, "the clip index has no labels 'covered_greta-cam'"),
        ({"people__who": "cleo-2024-04-01 who"}, "name 'cleo-2024-04-01', which is an id"),
        ({"stories.": "cleo-2024-04-01."}, "name 'cleo-2024-04-01', which is an id"),
        ({"people__who": "(CLEO-1) who"}, "name 'cleo-1', which is an id"),
        ({'"empathy",__"valence",__"mood"': '"told_to"'}, "the label 'told_to' names 'bertil-1', which is an id"),
        (
            {'["reflection"]': '["reflexion"]'},
            "the clip index has no phase 'reflexion'; it has reflection, story_share",
        ),
        ({"2026-11-22": "2026-02-30"}, "date = '2026-02-30' is not like 2026-11-22"),
        ({'"CC-BY-4.0"': '"CC BY 4.0"'}, "license = 'CC BY 4.0' is not an identifier of SPDX"),
        ({"license__=": "licence ="}, "there is no key 'licence'"),
        ({'version__=__"1.0"\n': ""}, "'version' is missing"),
        ({"allow_biometric__=__true": 'allow_biometric = "yes"'}, "allow_biometric = 'yes' is not true or false"),
        ({"2026-11-22": "today"}, "date = 'today' is not like 2026-11-22"),
        ({"withdrawn-2024-05-05": "nobody"}, "leave_out: there is no session 'nobody'"),
    ],
)
def test_what_is_refused_leaves_nothing(
    original: FeatureStore, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(ReleaseError, match=re.escape(said)):
        make_release(original, place / "out", settings_of(tmp_path, **changes))
    assert list(place.iterdir()) == []


def test_openface_without_a_permission_is_movements(original: FeatureStore, tmp_path: Path) -> None:
    text = SETTINGS.partition("opensmile")[0].replace("allow_biometric = true", "")
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    with pytest.raises(ReleaseError, match="'openface', as it is asked for, is biometric"):
        make_release(original, tmp_path / "more", settings_of(tmp_path, text.replace('"success"', '"p_0"')))


def test_places_that_cannot_be(original: FeatureStore, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    inside = Path(original.storage.location)
    for target, key, said in (
        (tmp_path / "out", tmp_path / "out/key.json", "would be inside the release"),
        (inside / "out", None, "is inside the feature store"),
        (tmp_path, None, "is there already"),
        (tmp_path / "out", tmp_path / "release.toml", "is no key of a release"),
    ):
        with pytest.raises(ReleaseError, match=said):
            make_release(original, target, settings, key)
    assert [path.name for path in tmp_path.iterdir()] == ["release.toml"]


def test_arrays_of_a_plug_in_are_released_as_a_whole_where_they_are_named(
    original: FeatureStore, tmp_path: Path
) -> None:
    text = SETTINGS.partition("[features]")[0] + 'opensmile = ["F0final_sma"]\ngesture = ["values"]\n'
    text = text.replace('opensmile = ["F0', '[features]\nopensmile = ["F0')
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    store = FeatureStore(tmp_path / "out/features")
    names = json.loads((tmp_path / "out.key.json").read_text())["names"]["sessions"]
    pitch = FEATURES["opensmile"].columns.index("F0final_sma")
    for old, new in names.items():
        assert store.columns(new, "gesture") == ("gesture_0000", "gesture_0001", "gesture_0002")
        np.testing.assert_array_equal(store.read(new, "gesture"), original.read(old, "gesture"))
        for array in ("values", "per_frame"):
            assert store.columns(new, "opensmile", array) == ("F0final_sma",)
            before = original.read(old, "opensmile", array=array)[:, [pitch]]
            np.testing.assert_array_equal(store.read(new, "opensmile", array=array), before)


def test_an_interrupted_release_leaves_its_key_alone(original: FeatureStore, tmp_path: Path) -> None:
    def progress(feature: str) -> None:
        if feature == "opensmile":
            raise KeyboardInterrupt

    place = tmp_path / "place"
    with pytest.raises(KeyboardInterrupt):
        make_release(original, place / "out", settings_of(tmp_path), progress=progress)
    assert [path.name for path in place.iterdir()] == ["out.key.json"]


@pytest.mark.parametrize(
    ("provenance", "is_of_texts"),
    [
        ({"inputs": {"video": {}}}, False),
        ({"inputs": {"video": {}}, "tools": {"opencv": "4", "feature openface": "0a"}}, False),
        ({"inputs": {"video": {}}, "tools": {"feature frames": "0a", "feature sbert": "0b"}}, True),
        ({"inputs": {"video": {}}, "tools": {"feature summaries": "0c"}}, True),  # of a plug-in: who knows
        ({"inputs": {"audio": {}, "transcript": {}}}, True),
        ({"inputs": {}}, True),
        ({}, True),
    ],
)
def test_what_was_made_of_texts_needs_their_permission(provenance: dict[str, Any], is_of_texts: bool) -> None:
    needed = {Sensitive.BIOMETRIC, Sensitive.TEXT} if is_of_texts else {Sensitive.BIOMETRIC}
    assert sensitivity("gesture", PLUG_IN, False, {}, provenance) == needed


def test_phases_and_times_that_would_mislead(original: FeatureStore, tmp_path: Path) -> None:
    """A phase that bears the new name of another, and windows by the clock on the wall."""
    root = tmp_path / "features"
    shutil.copytree(original.storage.location, root)
    for column, change, said in (
        ("phase", lambda phase: phase.replace("reflection", "phase0001"), "is also the new name of another phase"),
        ("stop_s", lambda time: time + 1710666000, "windows beyond 1,000,000 s"),
    ):
        index = original.clips()
        index[column] = index[column].map(change)
        write_clip_index(index, local(root))
        phase = "phase0001" if column == "phase" else "reflection"
        settings = settings_of(tmp_path, SETTINGS.replace('["reflection"]', f'["{phase}"]'))
        with pytest.raises(ReleaseError, match=said):
            make_release(FeatureStore(root), tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()
