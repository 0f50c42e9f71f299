"""Exports with a row for each word or utterance, and formats of plug-ins."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.messages import missing
from support.stores import local, publish_arrays
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, write_features
from support.tools.plug_ins import PLUG_INS
from support.track_features import SPEAKERS, WINDOWS, seconds_of_the_session, study_of, write_tracks
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.spec import Axis
from storyframes.store import tables
from storyframes_release.export.run import export
from tasks.clip_index.index import build_clip_index, write_clip_index


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=2))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *arguments])
    return result.exit_code, result.output


@pytest.mark.slow
def test_rows_of_words_are_means_over_their_frames_and_sound(
    study: SyntheticStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 20_000)  # several blocks of words
    out = tmp_path / "out"
    chosen = ["--features", "glove,openface,opensmile", "--per", "word", "--functionals", "mean,max"]
    code, said = run(str(study.root), "--out", str(out), *chosen)
    assert code == 0, said
    for session in ("s00", "s01"):
        of = {key[1:]: values for key, values in study.arrays.items() if key[0] == session}
        face = pd.read_parquet(out / session / "openface.word.parquet")
        sound = pd.read_parquet(out / session / "opensmile.word.parquet")
        words = pd.read_parquet(out / session / "glove.parquet")
        for column in ("word", "time", "end"):
            assert list(face[column]) == list(sound[column]) == list(words[column])
        values, valid = of["openface", "values"], of["openface", "valid"] == 1
        column = FeatureStore(study.root).columns(session, "openface").index("AU12_r")
        begins = np.arange(len(values)) / FPS
        checked = 0
        for number, (start, end) in enumerate(zip(words["time"], words["end"], strict=True)):
            rows = np.flatnonzero((np.minimum(begins + 1 / FPS, end) - np.maximum(begins, start) > 1e-5) & valid)
            assert face["mask"][number] == bool(len(rows))
            if len(rows):
                got = face.loc[number, ["AU12_r.mean", "AU12_r.max"]].to_numpy(float)
                np.testing.assert_allclose(got, [values[rows, column].mean(), values[rows, column].max()], rtol=1e-5)
                checked += 1
        assert checked > 1
        assert sound["mask"].sum() > 1
    units = pq.read_schema(out / "s00/openface.word.parquet").field("pose_Tx.max").metadata
    assert units[b"units"] == b"mm"
    about = json.loads((out / "export.json").read_text())
    assert (about["per"], about["functionals"]) == ("word", ["mean", "max"])
    text = (out / "README.md").read_text()
    assert "mean, max over the rows" in text
    assert missing(text, "glove", "word") == []


def test_what_is_exported_are_the_clips_numbers(study: SyntheticStudy, tmp_path: Path) -> None:
    from storyframes import ClipDataset, ClipInput

    done = export(FeatureStore(study.root), tmp_path / "out", "npy", features=["resnet50"], per=Axis.UTTERANCE)
    assert [table["rows"] for table in done.tables] == [
        len(study.arrays[session, "sbert", "start"]) for session in ("s00", "s01")
    ]
    rows = np.load(tmp_path / "out/s00/resnet50.utterance/values.npy")
    times = np.load(tmp_path / "out/s00/resnet50.utterance/time.npy")
    clip = ClipDataset(study.root, [ClipInput("resnet50", axis="utterance"), ClipInput("sentence", ["values"])])
    first = clip.stored_rows(0)["sentence"]
    np.testing.assert_array_equal(clip[0]["resnet50"][: len(first)], rows[first])
    np.testing.assert_array_equal(times, study.arrays["s00", "sbert", "start"])


@pytest.mark.slow
def test_the_only_words_are_those_of_a_microphone(tmp_path: Path) -> None:
    arrays = write_tracks(tmp_path / "features", ("s15",))
    store = FeatureStore(tmp_path / "features")
    write_clip_index(build_clip_index(study_of(sessions=("s15",)), WINDOWS, store).clips, local(tmp_path / "features"))
    store = FeatureStore(tmp_path / "features")
    features = ["openface", "openface.gaze", "glove", "sbert"]
    done = export(store, tmp_path / "out", "parquet", features=features, per=Axis.WORD)
    assert {table["feature"] for table in done.tables} == {"openface", "openface@cam", "openface@twin", "glove@lapel"}
    (omission,) = done.left_out
    assert missing(omission["reason"], "s15/sbert@lapel", "utterance") == []
    rows = pd.read_parquet(tmp_path / "out/s15/openface.word.parquet")
    np.testing.assert_allclose(rows["time"], seconds_of_the_session(arrays["s15", "glove@lapel", "start"]))
    assert set(rows["speaker"]) <= set(SPEAKERS)
    gaze = pd.read_parquet(tmp_path / "out/s15/openface.gaze.word.parquet")
    assert sum(name.startswith("gaze") for name in gaze) == 8
    pd.testing.assert_frame_equal(gaze, rows[list(gaze)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--per", "frame"], "--per 'frame': there are word, utterance"),
        (["--per", "word", "--rate", "5"], "not together with --rate"),
        (["--functionals", "std"], "give --per word as well"),
        (["--per", "word", "--functionals", "mean,median"], "has 'median': there are mean, std, max"),
    ],
)
def test_wrong_calls(study: SyntheticStudy, tmp_path: Path, options: list[str], said: str) -> None:
    code, output = run(str(study.root), "--out", str(tmp_path / "out"), *options)
    assert code == 2
    assert said in " ".join(output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_plug_in_s_format(study: SyntheticStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "installed/example_format-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: example-format\nVersion: 1.0\n")
    points = "[storyframes.export_formats]\nlines = storyframes_light:write_lines\nbroken = no_such_module:write\n"
    (installed / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(PLUG_INS / "storyframes-example"))
    monkeypatch.syspath_prepend(str(installed.parent))
    out = tmp_path / "out"
    code, said = run(str(study.root), "--out", str(out), "--format", "lines", "--features", "glove")
    assert code == 0, said
    rows = [json.loads(line) for line in (out / "s00/glove.jsonl").read_text().splitlines()]
    assert [row["word"] for row in rows] == list(range(len(study.arrays["s00", "glove", "start"])))
    np.testing.assert_array_equal([row["time"] for row in rows], study.arrays["s00", "glove", "start"])
    known = study.arrays["s00", "glove", "known"] == 1
    assert [row["glove_000"] is not None for row in rows] == known.tolist()
    assert missing((out / "README.md").read_text(), "JSON", "object") == []
    code, said = run(str(study.root), "--out", str(tmp_path / "two"), "--format", "broken")
    assert (code, "--format broken: cannot be loaded (ModuleNotFoundError" in " ".join(said.split())) == (2, True)
    code, said = run(str(study.root), "--out", str(tmp_path / "two"), "--format", "xlsx")
    assert code == 2
    assert "mat" in said
    assert "lines" in said


def test_a_word_without_a_measured_row_is_masked(study: SyntheticStudy, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(study.root, root)
    arrays = {name: study.arrays["s00", "openface", name] for name in ("values", "valid", "confidence")}
    frames = np.arange(len(arrays["valid"]))
    arrays["valid"] = (frames % 64 < 32).astype(np.uint8)
    publish_arrays(root, "s00", "openface", arrays)
    export(FeatureStore(root), tmp_path / "out", "parquet", features=["openface"], sessions=["s00"], per=Axis.WORD)
    words = pd.read_parquet(tmp_path / "out/s00/openface.word.parquet")
    spans = words[["time", "end"]].to_numpy()
    shared = np.minimum((frames + 1) / FPS, spans[:, 1:]) - np.maximum(frames / FPS, spans[:, :1])
    measured = ((shared > 1e-5) & (arrays["valid"] == 1)).any(axis=1)
    assert words["mask"].astype(bool).tolist() == measured.tolist()
    assert {*measured} == {True, False}
