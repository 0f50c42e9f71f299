"""A feature store in which names, dates and places stand wherever they can, for what must not give them away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from support.stores import local
from support.synthetic_features import FPS, STORY_IDS, StudySpec, publish, random_features, study_of, tables

from storyframes import FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, STORIES
from storyframes.label_curves import curve_spec
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status
from storyframes.store.storage.files import write_atomically
from storyframes_release.release.settings import ReleaseSettings, read_settings
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study.load import Participant
from tasks.study.study_identity import remember_study

SESSIONS = ["anna-2024-03-17", "bertil-2024-03-18", "cleo-2024-04-01", "withdrawn-2024-05-05"]
STORY = "hugos-lost-dog"
PLANTED = [
    *(
        "anna",
        "bertil",
        "cleo",
        "dora",
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
PROVENANCE = {
    "extractor": 3,
    "code": "storyframes 0.30.0",
    "settings": {
        "engine": "torch", "every_n_frames": 2, "layer": [-1, 3], "allow_truncated": True, "prompt": "query: ",
        "binary": "/home/hugo/FeatureExtraction", "landmarks": "hugos_face", "source": "path:anna-muster",
        "speakers": "f00df00d" * 8, "region": [1710666000], "minimum": 1710666000, "max_size": ["Muster"],
        "annas_taste": 1, "mouth": 1710666000, "pool": {"cls": "Anna"}, "margin": "0.2 by Hugo",
    },
    "models": {"config.json": "ab" * 32, "anna.safetensors": "cd" * 32, "vectors": "at lab-machine-7"},
    "tools": {
        "opensmile": "2.5.0", "python": "3.11.4+hugo", "plug-in": "annas-gestures 1.0", "anna": "1.0",
        "feature openface": "f00df00d" * 8, "feature hugos_face": "f00df00d" * 8,
    },
    "libraries": {"numpy": "2.1.0", "torch": "2.4.0+lab-machine-7", "muster": "1.0"},
    "host": "lab-machine-7",
}  # fmt: skip
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


def planted_store(root: Path) -> FeatureStore:
    """A store of four sessions, in which names, dates and places stand wherever they can."""
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
    loaded = replace(study_of(study), participants=(Participant(participant_id="Dora-9"),))
    remember_study(local(root), loaded)
    index = build_clip_index(loaded, spec, FeatureStore(root)).clips
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
    index.loc[index["session_id"] == SESSIONS[1], ["words", "sound_covered"]] = pd.NA
    index["told_to"] = pd.Categorical(["the robot", "Bertil-1"] * (len(index) // 2))
    index["sent_to"] = pd.Categorical(["calm", "to Dora-9"] * (len(index) // 2))
    index["told_of"] = pd.Categorical(["the robot", "WITHDRAWN_1"] * (len(index) // 2))
    index["effort_Bertil-1"] = np.float32(1)  # somebody rates himself
    index["seen_by"] = "Hugo"  # a column that only a later version has
    index["covered_greta-cam"] = np.float32(1)
    index.attrs = {
        "schemes": {
            "empathy": "ordinal",
            "valence": "interval",
            "mood": "nominal",
            "told_to": "nominal",
            "sent_to": "nominal",
            "told_of": "nominal",
            "rater-hugo": "nominal",
            "effort_Bertil-1": "interval",
        },
        "raters": {"rater-hugo": "hugo"},
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
    inputs = {"video": {"path": "anna.avi", "sha256": f"f00df00d{number}"}}
    for feature, values in features.items():
        with FeatureWriter(local(root), session, FEATURES[feature]) as out:
            for name, rows in values.items():
                out.write(name, np.clip(rows, 0, 1) if name == "speaker" else rows)
            out.attributes |= {"speakers": ["participant", "greta"], "host": "lab-machine-7", "session": session}
            out.attributes |= {"feature_set": "set of Hugo", "started_at": "2024-03-17T10:00:00", "about": "Anna"}
            out.quality = {"hugos_opinion": 1.0}
            out.caveats |= {"interlaced video", "ask Hugo about Anna", "greta"}
            of_host = {"code": "lab-machine-7"} if feature == "frames" else {}
            out.publish(f"f00df00d{feature}", PROVENANCE | of_host | {"inputs": inputs})
    with FeatureWriter(local(root), session, PLUG_IN) as out:
        readings = np.random.default_rng(number).normal(size=(60, 3)).astype(np.float32)
        readings[:, 2] = BEFORE
        out.write("values", readings)
        out.write("hugo_was_there", np.arange(60, dtype=np.uint8) % 2)
        out.write("diary", np.tile(np.frombuffer(b"SECRET!!", np.uint8), (60, 1)))
        out.publish("f00df00d", PROVENANCE | {"inputs": {"video": {}}, "private": False})
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
