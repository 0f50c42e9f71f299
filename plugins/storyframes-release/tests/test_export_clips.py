"""Clips as MMSA, datasets and webdataset take them, compared with the clips themselves."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from support.commands import ROOT
from support.messages import missing, naming
from support.models.tiny_text_models import WORDS, make_tokenizer
from support.stores import local
from support.studies import make_study
from support.synthetic_features import StudySpec, SyntheticStudy, publish, tables, write_features
from support.track_features import WINDOWS, study_of, write_tracks
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.store.catalogue import compact
from storyframes_release.export import clip_formats
from storyframes_release.export.bert_tokens import BertTokens
from storyframes_release.export.clips import export_clips
from storyframes_release.export.formats import ExportError
from storyframes_release.export_command import spoken_words
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study

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


@pytest.mark.slow
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
    assert missing(text, "not left the study") == []
    assert stat.S_IMODE((out / "mmsa.pkl").stat().st_mode) == 0o600


@pytest.mark.slow
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


@pytest.mark.slow
def test_mmsa_has_nobody_who_is_forgotten(tmp_path: Path) -> None:
    root, folder = write_features(tmp_path / "features", STUDY).root, tmp_path / "study"
    folder.mkdir()
    sessions = [f"s{number:02d}" for number in range(STUDY.sessions)]
    videos = [f"{session}.mp4" for session in sessions]
    tables(STUDY, sessions)["sessions"].assign(video=videos).to_csv(folder / "sessions.csv", index=False)
    remember_study(local(root), load_study(folder))
    backup = Path(shutil.copytree(root, tmp_path / "backup"))

    def exported(name: str) -> set[str]:
        code, said = run(root, "--out", tmp_path / name, "--format", "mmsa")
        assert code == 0, said
        parts = pickle.loads((tmp_path / name / "mmsa.pkl").read_bytes()).values()
        return {clip.partition("$_$")[0] for part in parts for clip in part["id"]}

    assert exported("before") == {*sessions}
    done = CliRunner().invoke(app, ["forget", str(folder), str(root), "--participant", "ps04"])
    assert done.exit_code == 0, done.stderr
    assert exported("after") == {*sessions} - {"s04"}
    for name in ("s04", "catalogue.parquet", "clips.parquet"):  # as a backup brings them back
        copy = shutil.copytree if (backup / name).is_dir() else shutil.copy
        copy(backup / name, root / name)
    assert exported("restored") == {*sessions} - {"s04"}


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


def spoken_in(study: SyntheticStudy) -> Callable[[str], list[tuple[float, str]]]:
    """Words of the store's own times, each with a text of its own."""

    def words(session: str) -> list[tuple[float, str]]:
        starts = study.arrays[session, "glove", "start"]
        return sorted(
            (start, f"{WORDS[number % len(WORDS)]}-{session}") for number, start in enumerate(starts.tolist())
        )

    return words


def said_in(study: SyntheticStudy, number: int) -> list[str]:
    clip = study.clips.iloc[number]
    words = spoken_in(study)(clip["session_id"])
    return [text for start, text in words if clip["start_s"] <= start < clip["stop_s"]]


@pytest.mark.slow
def test_text_leaves_only_when_it_is_asked_for(study: SyntheticStudy, tmp_path: Path) -> None:
    export_clips(FeatureStore(study.root), tmp_path / "out", "mmsa", words=spoken_in(study))
    content = pickle.loads((tmp_path / "out/mmsa.pkl").read_bytes())
    for split, name in zip(SPLITS, content, strict=True):
        assert content[name]["raw_text"] == [" ".join(said_in(study, number)) for number in clips_of(study, split)]
        assert any(content[name]["raw_text"])
        assert "text_bert" not in content[name]
    text = (tmp_path / "out/README.md").read_text()
    assert missing(text, "`raw_text`", "said") == []
    assert "There is no `text_bert`" in text


@pytest.mark.slow
def test_words_that_are_not_those_of_the_features_are_refused(study: SyntheticStudy, tmp_path: Path) -> None:
    store = FeatureStore(study.root)
    with pytest.raises(ExportError, match=r"the transcript of s00 has \d+ words and its glove \d+, or other times"):
        export_clips(store, tmp_path / "out", "mmsa", words=lambda session: spoken_in(study)(session)[1:])
    with pytest.raises(ExportError, match="or other times"):
        export_clips(
            store, tmp_path / "out", "mmsa", words=lambda session: [(s + 0.5, w) for s, w in spoken_in(study)(session)]
        )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer("bert").save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("per", [None, "word"])
def test_tokens_for_models_of_bert_s_kind(
    study: SyntheticStudy, tmp_path: Path, tokenizer: Path, per: str | None
) -> None:
    from transformers import PreTrainedTokenizerFast

    plain = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    export_clips(
        FeatureStore(study.root), tmp_path / "out", "mmsa", per=per, words=spoken_in(study),
        tokenizer=BertTokens(tokenizer),
    )  # fmt: skip
    content = pickle.loads((tmp_path / "out/mmsa.pkl").read_bytes())
    inputs = [ClipInput(name, axis=per, missing="mask") for name in ("opensmile", "openface")]
    dataset = ClipDataset(study.root, [ClipInput("glove", missing="mask"), *inputs])
    seen = 0
    for split, name in zip(SPLITS, content, strict=True):
        part, numbers = content[name], clips_of(study, split)
        texts = [" ".join(said_in(study, number)) for number in numbers]
        length = part["text_bert"].shape[2]
        alone = plain(texts, padding="max_length", max_length=length, return_tensors="np")
        wanted = np.stack([alone["input_ids"], alone["attention_mask"], np.zeros_like(alone["input_ids"])], axis=1)
        np.testing.assert_array_equal(part["text_bert"], wanted)
        batch = dataset.read(numbers.tolist())
        for key, feature in (("text", "glove"), ("audio", "opensmile"), ("vision", "openface")):
            if per is None:
                assert part[key].shape[1] == dataset.fields[feature].shape[0]
                continue
            assert part[key].shape[1] == length
            assert part[f"{key}_lengths"] == wanted[:, 1].sum(axis=1).tolist()
            values = batch[feature][..., -part[key].shape[2] :]  # openface without its bookkeeping
            for place, text in enumerate(texts):
                words, rows = text.split(), iter(range(length))
                assert not part[key][place, next(rows)].any()  # the mark of the beginning
                for number, word in enumerate(words):
                    row = np.where(np.isfinite(values[place, number]), values[place, number], 0)
                    row = row * batch[f"{feature}_mask"][place, number]
                    for _ in plain(word, add_special_tokens=False)["input_ids"]:
                        np.testing.assert_array_equal(part[key][place, next(rows)], row)
                        seen += bool(row.any())
                assert not part[key][place, list(rows)].any()
    assert (seen > 100) == (per == "word")
    digest = hashlib.sha256((tokenizer / "tokenizer.json").read_bytes()).hexdigest()
    assert f"- tokenizer.json: sha256 {digest}" in (tmp_path / "out/README.md").read_text()
    assert json.loads((tmp_path / "out/export.json").read_text())["tokenizer"]["tokenizer.json"] == f"sha256 {digest}"
    assert str(tokenizer) not in (tmp_path / "out/export.json").read_text()


@pytest.mark.slow
def test_a_tokenizer_is_of_a_folder_and_of_what_is_said(study: SyntheticStudy, tmp_path: Path, tokenizer: Path) -> None:
    mmsa = [study.root, "--out", tmp_path / "out", "--format", "mmsa", "--bert-tokenizer"]
    assert missing(run(*mmsa, tokenizer)[1], "--raw-text", "STUDY") == []
    assert "is no folder" in run(*mmsa, tmp_path / "no")[1]
    assert "has no tokenizer" in run(*mmsa, study.root)[1]
    unmarked = json.loads((tokenizer / "tokenizer.json").read_text()) | {"post_processor": None}
    shutil.copytree(tokenizer, tmp_path / "unmarked")
    (tmp_path / "unmarked/tokenizer.json").write_text(json.dumps(unmarked))
    with pytest.raises(ExportError, match=naming("tokenizer", "kind")):
        BertTokens(tmp_path / "unmarked")
    shutil.rmtree(tmp_path / "unmarked")
    too_long = BertTokens(tokenizer)
    too_long.longest = 4
    with pytest.raises(ExportError, match=r"the clip .* has \d+ tokens, and the model reads 4"):
        export_clips(FeatureStore(study.root), tmp_path / "out", "mmsa", words=spoken_in(study), tokenizer=too_long)
    assert list(tmp_path.iterdir()) == []


def test_words_are_read_as_the_study_s_are(tmp_path: Path) -> None:
    transcript = json.loads((ROOT / "demo/study/transcripts/p01-s01.json").read_text())
    words = [word for utterance in transcript["utterances"] for word in utterance.get("words", [])]
    assert len(words) > 3
    of_demo = spoken_words(ROOT / "demo/study")
    assert of_demo("p01-s01") == [(word["start_s"], word["word"]) for word in words]
    with pytest.raises(ExportError, match=naming("'no-such-session'", "session")):
        of_demo("no-such-session")
    folder = make_study(tmp_path / "study", transcript="s.vtt")
    (folder / "s.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nAnna: hello\n\n00:03.000 --> 00:02.500\nwrong\n")
    config = tmp_path / "storyframes.toml"
    config.write_text("[transcript]\nallow_malformed_cues = true\nspeaker_prefixes = true\n")
    assert [word for _, word in spoken_words(folder, config)("s")] == ["hello"]
    config.write_text("[transcript]\nallow_malformed_cues = true\nspeaker_prefixes = false\n")
    assert [word for _, word in spoken_words(folder, config)("s")] == ["Anna:", "hello"]
    with pytest.raises(ExportError, match=naming("--raw-text", "s.vtt")):
        spoken_words(folder)("s")


@pytest.mark.slow
def test_a_feature_without_any_row_is_not_exported_in_silence(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", STUDY)
    for session in FeatureStore(study.root).sessions:
        silent = {name: rows[: len(rows) * (rows.shape[0] == 60)] for name, rows in glove_of(study, session).items()}
        publish(study.root, session, "glove", silent)
    compact(local(study.root))
    for to in ("mmsa", "datasets", "webdataset"):
        names = [] if to == "mmsa" else ["--features", "openface,words"]
        code, said = run(study.root, "--out", tmp_path / "out", "--format", to, *names)
        assert (code, "no clip of the index has a row of" in said) == (2, True), said
    spoken = {name: rows[:1] * 0 if name != "frame_word" else rows for name, rows in glove_of(study, "s00").items()}
    publish(study.root, "s00", "glove", spoken)
    compact(local(study.root))
    chosen = ["--features", "openface,words", "--where", "session_id != 's00'"]
    code, said = run(study.root, "--out", tmp_path / "out", "--format", "datasets", *chosen)
    assert (code, "all of 'words': no clip has a measurement of it" in said) == (0, True), said
    assert missing((tmp_path / "out/README.md").read_text(), "measurement", "clip") == []


def glove_of(study: SyntheticStudy, session: str) -> dict[str, np.ndarray]:
    return {name: rows for (of, feature, name), rows in study.arrays.items() if (of, feature) == (session, "glove")}


@pytest.mark.slow
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
    _, front, text = (out / "README.md").read_text().split("---\n", 2)
    assert "float16 is float32" in text.partition("## What is lost")[2]
    (config,) = yaml.safe_load(front)["configs"]
    assert [files["path"] for files in config["data_files"]] == [f"{split}.parquet" for split in SPLITS]


@pytest.mark.slow
def test_whole_sessions_for_datasets(study: SyntheticStudy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ["--features", "openface,glove", "--per", "word", "--by", "session"]
    code, said = run(study.root, "--out", out, "--format", "datasets", *chosen)
    assert (code, "left out" in said) == (0, False)
    _, front, text = (out / "README.md").read_text().split("---\n", 2)
    assert "Labels are lost" in text
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


@pytest.mark.slow
def test_shards_for_webdataset(study: SyntheticStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_formats, "_SHARD_BYTES", 1_000_000)
    out = tmp_path / "out"
    export_clips(FeatureStore(study.root), out, "webdataset", features=["openface", "dope"])
    dataset = ClipDataset(study.root, [ClipInput("openface", missing="mask"), ClipInput("dope", missing="mask")])
    shards = sorted(path.name for path in out.glob("*.tar"))
    assert {name.rsplit("-", 1)[0] for name in shards} == set(SPLITS)
    assert "train-000001.tar" in shards
    lost = (out / "README.md").read_text().partition("## What is lost")[2]
    assert missing(lost, "columns", "caveats") == []
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "mmsaa"], "--format 'mmsaa': there are parquet, csv"),
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
            "there is no input 'faces'",
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
        (
            ["--format", "datasets", "--features", "glove,sbert", "--per", "word"],
            "'sbert' has no row for each word, and cannot be pooled over them",
        ),
        (
            ["--format", "mmsa", "--config", "x.toml"],
            "--config x.toml: says how transcripts are read",
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
