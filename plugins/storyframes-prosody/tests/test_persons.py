"""The table of persons, as a command; clips, releases and withdrawals of the feature."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted_voices import RATE, place, syllables, tone, transcript, write_study, write_wav
from storyframes_prosody.commands import TABLE, app, find_forgotten
from storyframes_prosody.extractor import COLUMNS
from storyframes_prosody.persons import person_table
from support.messages import missing, naming
from support.studies import run
from typer.testing import CliRunner

from flows.cli.app import app as storyframes
from storyframes import ClipDataset, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import StoreError, compact, create_store
from storyframes_release.release.run import make_release
from storyframes_release.release.settings import ReleaseError, read_settings
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.planning.selection import Selection
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study

pytestmark = pytest.mark.needs("parselmouth")

SETTINGS = """
title = "Voices"
description = "How people speak."
license = "CC-BY-4.0"
version = "1.0"
authors = ["The authors"]
labels = []
phases = []
ALLOWED

[features]
prosody = ["values"]
"""


def extracted(study: Path, root: Path, **settings: object) -> FeatureStore:
    create_store(root)
    run(study, root, Selection(only=("prosody",)), prosody=settings)
    store = FeatureStore(root)
    compact(store.storage)
    remember_study(store.storage, load_study(study))
    index = build_clip_index(load_study(study), WindowSpec(window_s=2.0, stride_s=2.0), FeatureStore(root))
    write_clip_index(index.clips, store.storage)
    return FeatureStore(root)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A low voice that speaks for 2.8 s with a pause, and twice for 1 s; a high one that speaks twice, once over it."""
    folder = tmp_path_factory.mktemp("persons")
    low = [(0.2, syllables(4, 5)), (1.8, syllables(6, 5)), (6.0, tone(120, 1)), (8.0, tone(120, 1))]
    sound = place([*low, (4.0, tone(220, 1)), (8.4, tone(220, 0.3))], 10)
    said = [
        ("participant", 0.2, 3.0, "a b c d"), ("robot", 4.0, 5.0, "e f"), ("participant", 6.0, 7.0, "g"),
        ("participant", 8.0, 9.0, "h i"), ("robot", 8.4, 8.7, "mm"),
    ]  # fmt: skip
    study = write_study(folder / "study", sound, transcript(*said))
    (study / "persons.csv").write_text("session_id,person_id\ns,participant\ns,robot\n")
    extracted(study, folder / "store")
    return folder / "store"


@pytest.fixture
def store(root: Path) -> FeatureStore:
    return FeatureStore(root)


def test_the_table_of_persons_by_hand(store: FeatureStore) -> None:
    table = person_table(store, "s").set_index("person")
    low, high = table.loc["participant"], table.loc["robot"]
    assert (low["utterances"], low["turns"], high["turns"]) == (3, 2, 1)  # "mm" is within the other's turn
    expected = {
        "talk_s": 4.8, "talk_share": 4.8 / 6.1, "turn_s_mean": (2.8 + 3.0) / 2, "words_per_s": 7 / 4.8,
        "overlap_s": 0.3, "overlap_share": 0.3 / 4.8, "doubtful_share": 1 / 4.8, "f0_median_hz": 120,
        "pauses_per_min": 60 / 3.8, "pause_s_mean": 0.8, "pause_before_s_median": 1.0,
    }  # fmt: skip
    assert {name: low[name] for name in expected} == pytest.approx(expected, rel=0.1)
    assert low["overlap_share"] == pytest.approx(0.0625, rel=1e-6)
    assert (high["f0_median_hz"], high["doubtful_share"]) == pytest.approx((220, 0.3 / 1.3), rel=0.01)


def test_persons_with_microphones_of_their_own_are_on_the_session_s_clock(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    write_wav(study / "s.wav", np.zeros(12 * RATE))
    write_wav(study / "a.wav", place([(1.0, tone(120, 2)), (6.0, tone(120, 2))], 10))
    write_wav(study / "b.wav", place([(1.5, tone(220, 2)), (6.0, tone(220, 1))], 10))
    (study / "a.json").write_text(transcript(("", 1, 3, "one two"), ("", 6, 8, "three")))
    (study / "b.json").write_text(transcript(("", 1.5, 3.5, "four"), ("", 6, 7, "five")))
    (study / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,s.wav\n")
    (study / "persons.csv").write_text("session_id,person_id\ns,a\ns,b\n")
    tracks = "session_id,track,audio,transcript,person_id,clock\ns,a,a.wav,a.json,a,\ns,b,b.wav,b.json,b,late\n"
    (study / "tracks.csv").write_text(tracks)
    (study / "clocks.csv").write_text("session_id,clock,clock_s,session_s\ns,late,0,2\n")  # b began 2 s late
    table = person_table(extracted(study, tmp_path / "store"), "s").set_index("person")
    # On the session's clock b speaks from 3.5 to 5.5 and from 8 to 9: never over a.
    assert table[["turns", "overlap_s", "doubtful_share"]].to_dict("index") == {
        "a": {"turns": 2, "overlap_s": 0, "doubtful_share": 0},
        "b": {"turns": 2, "overlap_s": 0, "doubtful_share": 0},
    }
    (study / "clocks.csv").write_text("session_id,clock,clock_s,session_s\ns,late,0,0\n")
    table = person_table(extracted(study, tmp_path / "in time"), "s").set_index("person")
    assert table["overlap_s"].to_dict() == {"a": 2.5, "b": 2.5}
    assert table["doubtful_share"].to_dict() == {"a": 1, "b": 1}


PERSONS = "session_id,person_id,participant_id,role\ns,p1,p,participant\ns,p2,,\n"
HIGH = place([(1, tone(200, 2)), (6, tone(200, 2))], 12)
LOW = place([(4, tone(120, 1)), (9, tone(120, 1.5))], 12)
OF_HIGH = (("participant", 1, 3, "a b"), ("participant", 6, 8, "c"))


def of_low(speaker: str, end: float = 10.5) -> tuple[tuple[str, float, float, str], ...]:
    return (speaker, 4, 5, "d"), (speaker, 9, end, "e f")


def two_devices(root: Path, own: str, *tracks: str, low_end: float = 10.5) -> FeatureStore:
    """A high and a low voice, each on a device of its own; ``own`` are the session's files, in ``all`` are both."""
    root.mkdir()
    for name, sound in {"high": HIGH, "low": LOW, "all": HIGH + LOW}.items():
        write_wav(root / f"{name}.wav", sound)
    said = {"high": OF_HIGH, "low": of_low("", low_end), "all": (*OF_HIGH, *of_low("robot"))}
    said |= {"low_named": of_low("robot"), "low_label": of_low("SPEAKER_01", low_end)}
    for name, utterances in said.items():
        (root / f"{name}.json").write_text(transcript(*sorted(utterances, key=lambda each: each[1])))
    (root / "sessions.csv").write_text(f"session_id,participant_id,audio,transcript\ns,p,{own}\n")
    rows = "".join(f"s,{track}\n" for track in tracks)
    (root / "tracks.csv").write_text(f"session_id,track,audio,transcript,person_id\n{rows}")
    (root / "persons.csv").write_text(PERSONS)
    return extracted(root, root / "store")


def test_the_session_s_own_speech_is_not_dropped_because_a_track_has_speech(tmp_path: Path) -> None:
    store = two_devices(tmp_path / "s", "high.wav,high.json", "cam2,low.wav,low.json,p2")
    with pytest.raises(StoreError, match=naming("s:", "--track main", "--track cam2", "--track main,cam2")):
        person_table(store, "s")
    table = person_table(store, "s", ["main", "cam2"]).set_index("person")
    assert table["talk_share"].to_dict() == pytest.approx({"participant": 4 / 6.5, "cam2": 2.5 / 6.5}, rel=1e-6)
    assert table["turns"].to_dict() == {"participant": 2, "cam2": 2}
    assert person_table(store, "s", ["cam2"])["talk_share"].tolist() == [1]
    with pytest.raises(StoreError, match=naming("'cam3'", "main, cam2")):
        person_table(store, "s", ["cam3"])


def test_a_joined_transcript_counts_once_and_persons_are_its_speakers(tmp_path: Path) -> None:
    devices = ("cam1,high.wav,high.json,p1", "cam2,low.wav,low_named.json,p2")
    table = person_table(two_devices(tmp_path / "s", "all.wav,all.json", *devices), "s").set_index("person")
    assert table["talk_s"].to_dict() == pytest.approx({"participant": 4, "robot": 2.5})
    assert table["feature"].to_dict() == {"participant": "prosody@cam1", "robot": "prosody@cam2"}
    assert table["pause_before_s_median"].isna().all()  # the other one speaks between


def test_one_name_on_two_devices_is_not_one_person(tmp_path: Path) -> None:
    devices = ("cam1,high.wav,high.json,p1", "cam2,high.wav,high.json,p2", "cam3,low.wav,low_label.json,")
    table = person_table(two_devices(tmp_path / "s", "all.wav,", *devices), "s")
    assert table["person"].tolist() == ["cam1", "cam2", "cam3"]  # a recogniser's label is no name either


def test_no_share_is_of_fewer_persons_than_were_asked_for(tmp_path: Path) -> None:
    devices = ("cam1,high.wav,high.json,p1", "cam2,low.wav,low.json,p2")
    store = two_devices(tmp_path / "s", "all.wav,", *devices, low_end=90)  # after the end of the recording
    with pytest.raises(StoreError, match=naming("s/prosody@cam2", "failed")):
        person_table(store, "s")
    assert person_table(store, "s", ["cam1"])["talk_share"].tolist() == [1]


def test_speech_of_others_that_the_feature_tolerates_is_not_doubtful(tmp_path: Path) -> None:
    said = transcript(("participant", 1, 3, "a"), ("robot", 2.7, 5, "b"), ("participant", 6, 8, "c"))
    study = write_study(tmp_path / "study", HIGH + LOW, said)
    table = person_table(extracted(study, tmp_path / "store", overlap_s=0.5), "s")
    assert table["overlap_s"].tolist() == pytest.approx([0.3, 0.3])
    assert table["doubtful_share"].tolist() == [0, 0]


def test_the_command_writes_the_table_for_its_owner_alone(store: FeatureStore, root: Path, tmp_path: Path) -> None:
    arguments = ["persons", str(root), "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert [row["person"] for row in json.loads(done.stdout)["persons"]] == ["participant", "robot"]
    path = tmp_path / "out" / TABLE
    assert path.stat().st_mode & 0o777 == 0o600
    pd.testing.assert_frame_equal(pd.read_csv(path).assign(caveats=""), person_table(store, "s"), check_dtype=False)
    assert CliRunner().invoke(app, arguments).exit_code == 2  # the folder exists


@pytest.mark.parametrize("said", [(), (("robot", 0.5, 0.5, "a"),)])
def test_a_session_in_which_nobody_speaks_is_named(
    tmp_path: Path, said: tuple[tuple[str, float, float, str], ...]
) -> None:
    study = write_study(tmp_path / "study", tone(120, 1), transcript(*said))
    extracted(study, tmp_path / "store")
    done = CliRunner().invoke(app, ["persons", str(tmp_path / "store")])
    assert (done.exit_code, missing(done.output, "s:", "no utterances")) == (2, [])


def test_clips_have_the_rows_of_utterances(store: FeatureStore) -> None:
    dataset = ClipDataset(store, ["prosody"])
    clip = dataset[2]  # seconds 4 to 6
    assert tuple(dataset.fields["prosody"].columns) == COLUMNS
    assert clip["prosody"][0, COLUMNS.index("f0_median_hz")] == pytest.approx(220, rel=0.01)


@pytest.mark.slow
def test_a_column_of_the_table_is_a_label_of_clips(root: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(root.parent, tmp_path / "copy")
    config = tmp_path / "c.toml"
    config.write_text('[clips]\nwindow_s = 2\nstride_s = 2\n[labels.talk_share]\nperson = "robot"\n')
    table = tmp_path / "out" / TABLE
    mapped = ["--map", "person=@person", "--map", "talk_share=talk_share:interval", "--skip", "*"]
    for command in (
        ["prosody", "persons", folder / "store", "--out", table.parent],
        ["import", "labels", table, "--to", folder / "study", "--no-times", *mapped],
        ["index", folder / "study", folder / "store", "--config", config],
    ):
        done = CliRunner().invoke(storyframes, [*map(str, command)])
        assert done.exit_code == 0, (done.output, done.exception)
    clips = FeatureStore(folder / "store").clips()
    assert clips["talk_share"].to_numpy() == pytest.approx(np.full(len(clips), 1.3 / 6.1), rel=1e-3)
    assert len(clips) > 2


def test_a_release_needs_both_permissions(store: FeatureStore, tmp_path: Path) -> None:
    def release(allowed: str) -> None:
        path = tmp_path / "release.toml"
        path.write_text(SETTINGS.replace("ALLOWED", allowed))
        make_release(store, tmp_path / "out", read_settings(path))

    with pytest.raises(ReleaseError, match=naming("'prosody'", "biometric", "allow_biometric")):
        release("allow_text_vectors = true")
    with pytest.raises(ReleaseError, match=naming("'prosody'", "allow_text_vectors")):
        release("allow_biometric = true")
    assert not (tmp_path / "out").exists()
    release("allow_biometric = true\nallow_text_vectors = true")
    given = FeatureStore(tmp_path / "out/features")
    (session,) = given.sessions
    np.testing.assert_array_equal(given.read(session, "prosody"), store.read("s", "prosody"))
    provenance = given.attributes(session, "prosody")["provenance"]
    assert (provenance["settings"]["floor_hz"], provenance["settings"]["overlap_s"]) == (60, 0.1)
    assert "praat-parselmouth" in provenance["libraries"]


def test_rows_of_the_forgotten_leave_the_table(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / TABLE
    rows = ["s1,a,prosody", "s2,b,prosody", "s2,p2,prosody@x", "s2,robot,prosody@cam", "s2,lapel,prosody@lapel"]
    path.write_text("\n".join(["session_id,person,feature", *rows, "s3,robot,prosody@cam"]) + "\n")
    ids = ForgottenIds(frozenset({"s1"}), frozenset({"p2"}), frozenset({("s2", "cam"), ("s2", "lapel")}))
    for trace in find_forgotten(Asked(tmp_path / "study", Scope(ids), [tmp_path])):
        trace.remove()
    assert path.read_text().splitlines()[1:] == ["s2,b,prosody", "s3,robot,prosody@cam"]
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.forget"] == {"prosody": "storyframes_prosody.commands:find_forgotten"}
