"""Clips as MMSA, datasets and webdataset take them, compared with the clips themselves."""

from __future__ import annotations

import io
import json
import pickle
import stat
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from support.commands import ROOT
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, publish, write_features
from support.track_features import WINDOWS, study_of, write_tracks
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.export import clip_formats
from storyframes.export.clips import export_clips
from storyframes.export.formats import ExportError
from storyframes.store.catalogue import compact
from tasks.clip_index.index import build_clip_index, write_clip_index

SPLITS = ("train", "val", "test")
STUDY = StudySpec(sessions=10, lacking={"s03": ("openface",)})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", STUDY)


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def clips_of(study: SyntheticStudy, split: str) -> np.ndarray:
    return np.flatnonzero((study.clips["split"] == split).to_numpy())


@pytest.mark.parametrize("per", [None, "word"])
def test_mmsa_s_layout(study: SyntheticStudy, tmp_path: Path, per: str | None) -> None:
    out = tmp_path / "out"
    code, said = run(study.root, "--out", out, "--format", "mmsa", *(["--per", per] if per else []))
    assert code == 0, said
    content = pickle.loads((out / "mmsa.pkl").read_bytes())
    assert list(content) == ["train", "valid", "test"]
    inputs = [
        ClipInput("glove", missing="mask"),
        ClipInput("opensmile", axis=per, missing="mask"),
        ClipInput("openface", ["measurements"], axis=per, missing="mask"),
    ]
    dataset = ClipDataset(study.root, inputs)
    for split, name in zip(SPLITS, content, strict=True):
        part, numbers = content[name], clips_of(study, split)
        batch = dataset.read(numbers.tolist())
        count = len(numbers)
        assert count > 0
        lengths = {dataset.fields[feature].shape[0] for feature in ("glove", "opensmile", "openface")}
        assert (len(lengths) == 1) == (per == "word")  # aligned: the same word in the same place
        for key, feature in (("text", "glove"), ("audio", "opensmile"), ("vision", "openface")):
            mask = batch[f"{feature}_mask"]
            assert part[key].dtype == np.float32
            assert part[key].shape == (count, *dataset.fields[feature].shape)
            np.testing.assert_array_equal(part[f"{key}_mask"], mask)
            finite = np.where(np.isfinite(batch[feature]), batch[feature], 0)
            np.testing.assert_array_equal(part[key][mask], finite[mask])
            assert not part[key][~mask].any()
            assert mask.any()
        assert part["vision"].shape[2] == 709
        wanted = batch["opensmile_length"]
        assert part["audio_lengths"] == np.maximum(wanted, 1).tolist()
        if per is None:
            assert part["vision_lengths"] == [13] * count
        labels = study.clips["empathy"].to_numpy(np.float32)[numbers]
        np.testing.assert_array_equal(part["regression_labels"], labels)
        assert part["regression_labels"].dtype == np.float32
        assert len(set(labels)) > 1 or split != "train"
        assert part["annotations"] == ["Positive"] * count
        assert part["classification_labels"].tolist() == [2] * count
        assert part["raw_text"] == [""] * count
        assert [name.replace("$_$", ":") for name in part["id"]] == study.clips["clip_id"].iloc[numbers].tolist()
        assert all(name.count("$_$") == 1 for name in part["id"])
    text = (out / "README.md").read_text()
    assert "MMSA reads no masks" in text
    assert "what is said has not left the study" in text
    assert stat.S_IMODE((out / "mmsa.pkl").stat().st_mode) == 0o600


def test_mmsa_has_all_measurements_of_vision_and_no_infinity(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", STUDY)
    values = {name: study.arrays["s00", "opensmile", name].copy() for name in ("time", "values", "per_frame")}
    values["values"][::2, 3] = -np.inf
    publish(study.root, "s00", "opensmile", values)
    compact(local(study.root))
    done = export_clips(FeatureStore(study.root), tmp_path / "out", "mmsa", features=["glove", "opensmile", "vision"])
    names = done.fields["vision"]["columns"]
    assert (len(names), names[709], "frame" in names) == (709 + 2048, "resnet50_0000", False)
    content = pickle.loads((tmp_path / "out/mmsa.pkl").read_bytes())
    assert {part["vision"].shape[2] for part in content.values()} == {len(names)}
    assert all(0 < np.abs(part["audio"]).max() < 100 for part in content.values())


def test_words_of_a_microphone_are_what_frames_are_pooled_over(tmp_path: Path) -> None:
    write_tracks(tmp_path / "features", ("s15",))
    store = FeatureStore(tmp_path / "features")
    write_clip_index(build_clip_index(study_of(sessions=("s15",)), WINDOWS, store).clips, local(tmp_path / "features"))
    store = FeatureStore(tmp_path / "features")
    done = export_clips(store, tmp_path / "out", "datasets", features=["openface", "words@lapel"], per="word")
    assert sorted(done.features) == ["glove@lapel", "openface"]  # their caveats and versions
    (split,) = done.splits
    rows = pq.read_table(tmp_path / "out" / f"{split}.parquet")
    lengths = rows["words@lapel_length"].to_pylist()
    assert rows["openface_length"].to_pylist() == lengths
    assert max(lengths) > 0


def test_text_leaves_only_when_it_is_asked_for(study: SyntheticStudy, tmp_path: Path) -> None:
    asked: list[tuple[str, float, float]] = []

    def said(session_id: str, start_s: float, stop_s: float) -> str:
        asked.append((session_id, start_s, stop_s))
        return f"words of {session_id}"

    export_clips(FeatureStore(study.root), tmp_path / "out", "mmsa", texts=said)
    part = pickle.loads((tmp_path / "out/mmsa.pkl").read_bytes())["test"]
    first = study.clips.iloc[clips_of(study, "test")[0]]
    assert part["raw_text"][0] == f"words of {first['session_id']}"
    assert asked[0] == tuple(study.clips.iloc[0][["session_id", "start_s", "stop_s"]])
    assert "`raw_text` is what is said in each clip" in (tmp_path / "out/README.md").read_text()


def test_the_words_of_a_clip_are_those_that_start_in_it() -> None:
    from flows.cli.share import spoken_words

    transcript = json.loads((ROOT / "demo/study/transcripts/p01-s01.json").read_text())
    text = spoken_words(ROOT / "demo/study")
    words = [word for utterance in transcript["utterances"] for word in utterance.get("words", [])]
    assert len(words) > 3
    assert text("p01-s01", 0.0, 1e6).split() == " ".join(word["word"] for word in words).split()
    assert text("p01-s01", words[1]["start_s"], words[3]["start_s"]) == f"{words[1]['word']} {words[2]['word']}"
    assert text("p01-s01", 1e6, 2e6) == ""
    with pytest.raises(ExportError, match="it has no session 'no-such-session', of which the store has clips"):
        text("no-such-session", 0.0, 1e6)


def test_parquet_for_datasets(study: SyntheticStudy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ["--features", "vision,words,openface", "--where", "phase == 'reflection'"]
    code, said = run(study.root, "--out", out, "--format", "datasets", *chosen)
    assert code == 0, said
    inputs = [ClipInput(name, missing="mask") for name in ("vision", "words", "openface")]
    dataset = ClipDataset(study.root, inputs, "phase == 'reflection'")
    for split in SPLITS:
        numbers = np.flatnonzero(dataset.clips["split"] == split)
        table, batch = pq.read_table(out / f"{split}.parquet"), dataset.read(numbers.tolist())
        assert table["clip_id"].to_pylist() == dataset.clips["clip_id"].iloc[numbers].tolist()
        assert table["clip_words"].to_pylist() == dataset.clips["words"].iloc[numbers].tolist()
        assert table["empathy"].to_pylist() == dataset.clips["empathy"].iloc[numbers].tolist()
        for name, values in batch.items():
            column = table[name].combine_chunks()
            flat = column
            for size in values.shape[1:]:
                assert flat.type.list_size == size
                flat = flat.flatten()
            got = flat.to_numpy(zero_copy_only=False).reshape(values.shape)
            np.testing.assert_array_equal(got, values.astype(got.dtype), name)
    front = (out / "README.md").read_text().split("---")[1]
    assert [line.split(": ")[1] for line in front.splitlines() if "path" in line] == [
        f"{split}.parquet" for split in SPLITS
    ]


def test_whole_sessions_for_datasets(study: SyntheticStudy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ["--features", "openface,glove", "--per", "word", "--by", "session"]
    code, said = run(study.root, "--out", out, "--format", "datasets", *chosen)
    assert (code, "left out" in said) == (0, False)
    _, front, _ = (out / "README.md").read_text().split("---\n", 2)
    configs = yaml.safe_load(front)["configs"]
    assert {config["config_name"] for config in configs} == {"openface.word", "glove"}
    for config in configs:
        sessions = []
        for files in config["data_files"]:
            own = study.clips.loc[study.clips["split"] == files["split"], "session_id"].unique()
            rows = pq.read_table([out / path for path in files["path"]])
            assert set(rows["session_id"].to_pylist()) <= set(own)
            sessions += [path.split("/")[0] for path in files["path"]]
        lacking = {"s03"} if config["config_name"] == "openface.word" else set()
        assert sorted(sessions) == sorted({f"s{number:02}" for number in range(10)} - lacking)
    words = pq.read_table(out / "s00/glove.parquet")
    np.testing.assert_array_equal(words["time"].to_numpy(), study.arrays["s00", "glove", "start"])
    assert words.column_names[0] == "session_id"


def test_shards_for_webdataset(study: SyntheticStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_formats, "_SHARD_BYTES", 1_000_000)
    out = tmp_path / "out"
    export_clips(FeatureStore(study.root), out, "webdataset", features=["openface", "dope"])
    dataset = ClipDataset(study.root, [ClipInput("openface", missing="mask"), ClipInput("dope", missing="mask")])
    shards = sorted(path.name for path in out.glob("*.tar"))
    assert {name.rsplit("-", 1)[0] for name in shards} == set(SPLITS)
    assert "train-000001.tar" in shards
    seen: list[int] = []
    for name in shards:
        with tarfile.open(out / name) as tar:
            samples: dict[str, dict[str, bytes]] = {}
            for member in tar:
                assert (member.uid, member.mtime, member.mode) == (0, 0, 0o600)
                key, _, extension = member.name.partition(".")
                content = tar.extractfile(member)
                assert content is not None
                samples.setdefault(key, {})[extension] = content.read()
        for key, sample in samples.items():
            clip, record = dataset[int(key)], json.loads(sample.pop("json"))
            assert record["clip_id"] == dataset.clips["clip_id"].iloc[int(key)]
            assert record["split"] == name.rsplit("-", 1)[0]
            assert {extension.removesuffix(".npy") for extension in sample} == set(clip)
            for extension, content in sample.items():
                np.testing.assert_array_equal(np.load(io.BytesIO(content)), clip[extension.removesuffix(".npy")])
            seen.append(int(key))
    assert sorted(seen) == list(range(len(dataset)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "datasets"], "name at least one, as inputs of clips"),
        (["--format", "mmsa", "--features", "glove,openface"], "name text, audio, vision, as inputs of clips"),
        (["--format", "mmsa", "--features", "glove,opensmile,dope"], "these are others: "),
        (
            ["--format", "mmsa", "--label", "mood"],
            "--label 'mood': MMSA's labels are numbers, and the clips have empathy",
        ),
        (["--format", "mmsa", "--where", "split == 'train'"], "no clip with the label is in 'val'"),
        (
            ["--format", "webdataset", "--features", "faces"],
            "there is no input 'faces', and no session has such a feature",
        ),
        (["--format", "datasets", "--features", "label"], "'label' is no feature: labels are in every clip's row"),
        (["--format", "webdataset", "--features", "openface", "--session", "s01"], "choose them with --where"),
        (
            ["--format", "datasets", "--features", "openface", "--raw-text", str(ROOT / "demo/study")],
            "--label and --raw-text are of mmsa",
        ),
        (
            ["--format", "datasets", "--features", "openface", "--label", "empathy"],
            "--label and --raw-text are of mmsa",
        ),
        (["--format", "webdataset", "--features", "openface", "--functionals", "std"], "give --per word as well"),
        (
            ["--format", "mmsa", "--features", "sbert,opensmile,openface", "--per", "word"],
            "'sbert' has no row for each",
        ),
        (["--format", "mmsa", "--by", "session"], "mmsa and webdataset have clips"),
        (["--where", "split == 'train'"], "--where, --label and --raw-text are of clips"),
    ],
)
def test_wrong_calls(study: SyntheticStudy, tmp_path: Path, options: list[str], said: str) -> None:
    code, output = run(study.root, "--out", tmp_path / "out", *options)
    assert code == 2
    assert said in output
    assert list(tmp_path.iterdir()) == []
