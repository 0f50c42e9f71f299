"""One recording in one line: the values of a study's extraction, with no study, and told apart from what is not so."""

from __future__ import annotations

import gc
import json
import locale
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import av
import numpy as np
import pandas as pd
import pytest
import torch
from av.stream import Disposition
from support.media.recordings import write_recording, write_video, write_wave
from support.messages import missing, naming
from support.models.tiny_audio_models import sound_model
from support.models.tiny_image_models import timm_model
from support.models.tiny_text_models import make_model
from support.studies import extract_session, make_study
from support.tools.plug_ins import installed, write
from typer.testing import CliRunner

import storyframes
from flows.cli.app import app
from flows.one_file import cache_folder
from flows.settings import SettingsError
from storyframes.one_file import ExtractedFile, ExtractFileError, PipelineMissingError
from storyframes.store import record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.storage.locks import locked
from tasks.models.digests import DigestCache

ROOT = Path(__file__).parents[2]
WORDS = [{"speaker": "p", "start_s": 0.2, "end_s": 1.4, "text": "hello good morning"}]
VECTORS = {"vectors": ROOT / "demo/glove.demo.300d.txt", "demo_vectors": True}


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of picture and sound, and the words as talk.json beside them."""
    folder = tmp_path_factory.mktemp("talk")
    sound = (8000 * np.sin(np.arange(32_000) / 20)).astype(np.int16)[:, None]
    (folder / "talk.json").write_text(json.dumps({"utterances": WORDS}))
    return write_recording(folder / "talk.avi", 50, sound)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def versions(root: Path) -> dict[str, str]:
    """Of the recordings' stores in a cache, every version by its folder."""
    return {str(path.parent.relative_to(root)): path.read_text() for path in sorted(root.glob("*/file/*/current.json"))}


def width(view: ExtractedFile) -> int:
    """How many values a row has, without which row it is and whether it is a measurement."""
    return view.to_pandas().drop(columns=["audio_frame", "mask"]).shape[1]


@pytest.mark.end_to_end
def test_the_values_are_those_of_a_study(talk: Path, cache: Path, tmp_path: Path) -> None:
    shutil.copy(talk, make_study(tmp_path / "study", video="talk.avi") / "talk.avi")
    stored, _ = extract_session(tmp_path / "study", tmp_path / "features", "opensmile")
    view = storyframes.extract(talk, "opensmile", cache=cache)
    table = view.to_pandas()
    names = storyframes.FEATURES["opensmile"].columns
    np.testing.assert_array_equal(table[[*names]], stored.read("s", "opensmile"))
    np.testing.assert_array_equal(table.index, stored.read("s", "opensmile", array="time"))
    assert (table.index.name, tuple(table.columns)) == ("time", ("audio_frame", "mask", *names))
    assert len(view.to_pandas(rate=15)) == 30
    assert set(view.store.catalogue["fingerprint"]) == set(stored.catalogue["fingerprint"])
    frames = view.to_pandas("opensmile.per_frame")
    np.testing.assert_array_equal(frames.index, stored.read("s", "frames", array="time"))
    np.testing.assert_array_equal(frames[[*names]], stored.read("s", "opensmile", array="per_frame"))
    shares = view.to_pandas("opensmile.voiced_share")["voiced_share"]
    np.testing.assert_array_equal(shares, stored.read("s", "opensmile", array="voiced_share"))
    pd.testing.assert_frame_equal(view.to_pandas("opensmile", rows="frame"), frames.assign(voiced_share=shares))
    assert set(view.to_xarray().children) == {"frames", "opensmile"}
    assert repr(view).startswith("ExtractedFile talk.avi: opensmile\n  frames/time: ")


@pytest.mark.slow
def test_a_network_gives_the_same_bits_whatever_threads_the_process_has(
    talk: Path, cache: Path, tmp_path: Path
) -> None:
    """A study's workers have one, a notebook has as many as processors."""
    models = {
        "heard": sound_model(tmp_path / "heard", "wav2vec2"),
        "read": make_model(tmp_path / "read", "bert"),
        "seen": timm_model(tmp_path / "seen", "resnet"),
    }
    kinds = {"heard": "audio", "read": "text", "seen": "image"}
    sections = [{"name": name, "kind": kinds[name], "source": f"path:{folder}"} for name, folder in models.items()]
    sections[1]["pool"] = "mean"
    sections[2]["engine"] = "torch"
    study = make_study(tmp_path / "study", video="talk.avi", transcript="talk.json")
    for name in ("talk.avi", "talk.json"):
        shutil.copy(talk.with_name(name), study / name)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        stored, _ = extract_session(study, tmp_path / "features", *models, embed=sections)
        torch.set_num_threads(3)
        view = storyframes.extract(talk, [*models], cache=cache, embed=sections, transcript=talk.with_suffix(".json"))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert view.failed == {}
    for name in models:
        np.testing.assert_array_equal(view.store.read("file", name), stored.read("s", name))
    assert set(view.store.catalogue["fingerprint"]) == set(stored.catalogue["fingerprint"])


@pytest.mark.slow
def test_what_is_there_is_not_made_again(talk: Path, cache: Path, tmp_path: Path) -> None:
    storyframes.extract(talk, ["opensmile"], cache=cache)
    first = versions(cache)
    shutil.copy(talk, tmp_path / "copy.avi")  # the content counts
    assert storyframes.extract(tmp_path / "copy.avi", "opensmile", cache=cache).name == "copy.avi"
    assert versions(cache) == first
    view = storyframes.extract(talk, "opensmile", cache=cache, opensmile={"feature_set": "eGeMAPSv02"})
    assert width(view) == 25
    assert width(storyframes.extract(talk, "opensmile", cache=cache)) == 65
    assert width(view) == 25  # what was opened before keeps its own values
    with av.open(str(talk)) as video, (tmp_path / "other.avi").open("wb") as other:
        other.write(talk.read_bytes() + b"\0" * (16 if video.duration else 0))
    storyframes.extract(tmp_path / "other.avi", "frames", cache=cache)
    assert len({path.split("/")[0] for path in versions(cache)}) == 2


def test_how_strictly_it_is_read_is_a_recording_of_its_own(talk: Path, cache: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.avi"
    cut.write_bytes(talk.read_bytes()[: talk.stat().st_size * 2 // 3])
    steps: list[tuple[str, int, int]] = []
    view = storyframes.extract(
        cut, ["frames"], cache=cache, recording={"allow_truncated": True}, progress=lambda *step: steps.append(step)
    )
    assert steps == [("frames", 1, 1)]
    assert view.caveats == {"frames": ["truncated video"]}
    assert missing(repr(view), "frames", "caveat: truncated video") == []
    assert view.to_pandas().attrs["caveats"] == ["truncated video"]
    with pytest.raises(ExtractFileError, match=naming("cut.avi", "\n  opensmile: needs")):
        storyframes.extract(cut, "opensmile", cache=cache)


def test_a_file_that_is_replaced_meanwhile_is_not_taken_for_what_it_was(
    talk: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the cache had the new recording's values for the old one, for good."""
    file, new = Path(shutil.copy(talk, tmp_path / "talk.avi")), write_video(tmp_path / "n.avi", "mpeg4", [0, 40, 80])
    sha256 = DigestCache.sha256

    def and_then_replaced(digests: DigestCache, path: Path) -> str:
        digest = sha256(digests, path)
        new.replace(path)
        return digest

    with monkeypatch.context() as once:
        once.setattr(DigestCache, "sha256", and_then_replaced)
        with pytest.raises(ExtractFileError, match="changed while"):
            storyframes.extract(file, "frames", cache=cache)
    assert len(storyframes.extract(talk, "frames", cache=cache).to_pandas()) == 50
    assert len(storyframes.extract(file, "frames", cache=cache).to_pandas()) == 3


@pytest.mark.slow
def test_a_feature_that_fails_leaves_the_others(talk: Path, cache: Path, tmp_path: Path) -> None:
    silent = write_video(tmp_path / "silent.avi", "mpeg4", [0, 40, 80])
    view = storyframes.extract(silent, ["opensmile", "frames"], cache=cache)
    assert view.asked == ["frames"]
    assert view.failed == {"opensmile": "silent.avi: has no audio track"}
    assert missing(repr(view), "opensmile failed", "silent.avi", "no audio track") == []
    assert len(view.to_pandas()) == 3
    with pytest.raises(KeyError, match=naming("opensmile failed", "silent.avi", "no audio track")):
        view.to_pandas("opensmile")
    with pytest.raises(ExtractFileError, match=naming("silent.avi: ", "\n  opensmile: silent.avi", "no audio track")):
        storyframes.extract(silent, "opensmile", cache=cache)
    asked = ["frames", "glove"]
    words = talk.with_suffix(".json")
    assert storyframes.extract(talk, asked, transcript=words, cache=cache, glove=VECTORS).failed == {}
    gone = storyframes.extract(talk, asked, transcript=words, cache=cache, glove={"vectors": tmp_path / "gone.txt"})
    assert list(gone.failed) == ["glove"]  # and not the version of before, whose settings were others
    assert set(gone.to_xarray().children) == {"frames"}
    with pytest.raises(KeyError, match="glove failed: .*does not exist"):
        gone.to_pandas("glove")


@pytest.mark.slow
def test_words_come_with_a_transcript(talk: Path, cache: Path) -> None:
    view = storyframes.extract(talk, "glove", transcript=talk.with_suffix(".json"), cache=cache, glove=VECTORS)
    table = view.to_pandas()
    assert (table.index.name, len(table)) == ("time", 3)
    assert table.columns[:5].tolist() == ["word", "end", "mask", "speaker", "glove_000"]
    assert "demo word vectors" in table.attrs["caveats"]
    assert "hello" not in repr(view) + table.to_csv()
    with pytest.raises(ExtractFileError, match=naming("glove: ", "transcript")):
        storyframes.extract(talk, "glove", cache=cache, glove=VECTORS)


def test_sound_alone(cache: Path, tmp_path: Path) -> None:
    sound = write_wave(tmp_path / "talk.wav", np.arange(16_000) % 200, 16_000)
    with av.open(str(tmp_path / "covered.mp4"), "w") as container:  # a record with a cover has no picture either
        cover, track = container.add_stream("mjpeg", rate=1), container.add_stream("aac", rate=16_000, layout="mono")
        cover.width, cover.height, cover.pix_fmt, cover.disposition = 64, 48, "yuvj420p", Disposition.attached_pic
        picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")
        block = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), format="fltp", layout="mono")
        block.sample_rate = 16_000
        for stream, frame in ((cover, picture), (track, block)):
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    for file in (sound, tmp_path / "covered.mp4"):
        view = storyframes.extract(file, ["opensmile", "openface", "frames"], cache=cache)
        assert view.failed == dict.fromkeys(("openface", "frames"), f"{file.name} has no picture")
        assert len(view.to_pandas("opensmile")) > 90
        assert set(view.to_xarray().children) == {"opensmile"}


@pytest.mark.slow
def test_rows_that_are_no_measurement_are_empty(demo_study: Path, cache: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost.csv"
    rows = pd.read_csv(demo_study / "openface/p01-s01.csv.gz", skipinitialspace=True)
    rows.loc[10:20, "success"] = 0
    rows.to_csv(lost, index=False)
    video = demo_study / "videos/p01-s01.avi"
    view = storyframes.extract(video, ["openface.gaze"], openface_csv=lost, cache=cache)
    gaze, stored = view.to_pandas(), view.to_pandas(unmeasured=True)
    names = [*storyframes.FEATURES["openface"].columns[5:13]]
    assert list(gaze.columns) == ["frame", "mask", *names]
    assert (~gaze["mask"]).sum() >= 11
    assert gaze.loc[~gaze["mask"], names].isna().all(axis=None)
    assert stored[names].iloc[10:20].notna().all(axis=None)
    pd.testing.assert_frame_equal(gaze[gaze["mask"]], stored[stored["mask"]])
    assert {"AU12_r", "confidence", "values.confidence"} < set(view.to_pandas("openface"))
    for options, wanted in (([], gaze), (["--unmeasured"], stored)):
        out = tmp_path / "gaze.parquet"
        code, _, errors = told(video, "--features", "openface.gaze", "--openface-csv", lost, "--out", out, *options)
        assert code == 0, errors
        pd.testing.assert_frame_equal(pd.read_parquet(out), wanted)


def test_several_recordings_are_a_mapping_by_file(
    talk: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = tmp_path / "media"
    media.mkdir()
    for name in ("a.avi", "b.avi"):
        shutil.copy(talk, media / name)
    (media / "broken.mp4").write_bytes(b"nothing")
    (media / "notes.txt").write_text("not a recording")
    shown: list[tuple[str, int, int]] = []
    of_folder = storyframes.extract(media, "frames.time", cache=cache, progress=lambda *step: shown.append(step))
    assert list(of_folder) == [str(media / "a.avi"), str(media / "b.avi")]
    assert list(of_folder.failed) == [str(media / "broken.mp4")]
    assert shown == [("a.avi", 1, 3), ("b.avi", 2, 3), ("broken.mp4", 3, 3)]
    alone = storyframes.extract(talk, "frames", cache=cache)
    pd.testing.assert_frame_equal(of_folder[media / "b.avi"].to_pandas("frames"), alone.to_pandas("frames"))
    first = of_folder[media / "a.avi"].to_pandas()
    pd.testing.assert_frame_equal(of_folder.to_pandas().loc[str(media / "a.avi")], first)
    assert list(storyframes.extract(f"{media}/*.avi", "frames", cache=cache)) == list(of_folder)
    assert list(storyframes.extract([talk], "frames", cache=cache)) == [str(talk)]
    with pytest.raises(KeyError, match=naming("broken.mp4", "failed")):
        of_folder[media / "broken.mp4"]
    monkeypatch.chdir(media)
    of_list = storyframes.extract(["./a.avi", "nofolder.avi/a.avi", "a.avi/b.avi"], "frames", cache=cache)
    assert (list(of_list), of_list["./a.avi"] is of_list["a.avi"]) == (["a.avi"], True)
    assert set(of_list.failed) == {"nofolder.avi/a.avi", "a.avi/b.avi"}  # the second is no FileNotFoundError
    for wrong in (f"{media}/*.mkv", tmp_path / "cache"):
        with pytest.raises(ExtractFileError, match=naming(wrong)):
            storyframes.extract(wrong, "frames", cache=cache)
    with pytest.raises(ExtractFileError, match=naming("transcript")):
        storyframes.extract(media, "frames", transcript=media / "notes.txt", cache=cache)
    assert told(media, "--features", "frames")[0] == 2


def test_what_cannot_be_asked_for(talk: Path, cache: Path, tmp_path: Path) -> None:
    for features, message in (
        (["opensmlie"], "there is no feature 'opensmlie': is 'opensmile' meant?"),
        (["openface.gazes"], "openface has no part 'gazes': is 'gaze' or"),
        (["dope.all"], "dope: all_body_2d, .* have different kinds of row: name one of them"),
        ([], "name a feature; there are frames, openface"),
    ):
        with pytest.raises(ValueError, match=message):
            storyframes.extract(talk, features, cache=cache)
    with pytest.raises(SettingsError, match="opensmile.feature: "):
        storyframes.extract(talk, "opensmile", cache=cache, opensmile={"feature": 1})
    with pytest.raises(SettingsError, match="opensmlie: "):
        storyframes.extract(talk, "opensmile", cache=cache, opensmlie={})
    with pytest.raises(FileNotFoundError):
        storyframes.extract(tmp_path / "absent.avi", "opensmile", cache=cache)
    with pytest.raises(FileNotFoundError):
        storyframes.extract(talk, "glove", transcript=tmp_path / "absent.vtt", cache=cache)
    (tmp_path / "text.avi").write_text("no recording")
    with pytest.raises(ExtractFileError, match=naming("text.avi", "media file")):
        storyframes.extract(tmp_path / "text.avi", "opensmile", cache=cache)
    view = storyframes.extract(talk, ["frames", "opensmile"], cache=cache)
    with pytest.raises(KeyError, match="name one of frames, opensmile"):
        view.to_pandas()
    with pytest.raises(KeyError, match=naming("glove", "frames, opensmile")):
        view.to_pandas("glove")
    with pytest.raises(StoreError, match=naming("opensmile", "'pitch'", "values, time, per_frame, voiced_share")):
        view.to_pandas("opensmile.pitch")


def test_keywords_stand_in_the_place_of_the_file_s(talk: Path, cache: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[opensmile]\nfeature_set = "eGeMAPSv02"\n[clips]\nstride = 30\n')
    assert width(storyframes.extract(talk, "opensmile", config=config, cache=cache)) == 25
    said = {"feature_set": "ComParE_2016"}
    both = storyframes.extract(talk, "opensmile", config=config, cache=cache, opensmile=said)
    assert width(both) == 65
    network = {"name": "dino", "kind": "image", "source": "path:none"}  # a feature that the settings make
    with pytest.raises(ExtractFileError, match=naming("talk.avi: ", "\n  dino: ", "none")):
        storyframes.extract(talk, "dino", cache=cache, embed=[network])


def test_it_is_private_and_leaves_its_process_as_it_was(talk: Path) -> None:
    before, core = os.umask(0o022), resource.getrlimit(resource.RLIMIT_CORE)
    try:
        storyframes.extract(talk, "opensmile")
        assert resource.getrlimit(resource.RLIMIT_CORE) == core
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    made = [cache_folder(), *cache_folder().rglob("*")]
    assert len(made) > 10
    assert {path.stat().st_mode & 0o077 for path in made} == {0}
    assert not [path for path in made if "talk" in path.name]
    assert locale.setlocale(locale.LC_NUMERIC) == locale.setlocale(locale.LC_NUMERIC, None)


@pytest.mark.slow
def test_without_a_cache_nothing_is_left(talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "unused"))
    view: ExtractedFile | None = storyframes.extract(talk, "frames", cache=False)
    assert view is not None
    (folder,) = tmp_path.iterdir()
    assert len(view.to_pandas()) == 50
    view = None
    gc.collect()
    assert not folder.exists()
    with pytest.raises(ExtractFileError):
        storyframes.extract(talk, "glove", cache=False, glove=VECTORS)
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_never_read_each_other_s_values(talk: Path, cache: Path) -> None:
    columns: dict[str, int] = {}

    def work(feature_set: str) -> None:
        view = storyframes.extract(talk, "opensmile", cache=cache, opensmile={"feature_set": feature_set})
        columns[feature_set] = width(view)

    storyframes.extract(talk, "frames", cache=cache)
    (store,) = (path for path in cache.iterdir() if path.is_dir())
    threads = [threading.Thread(target=work, args=[name]) for name in ("ComParE_2016", "eGeMAPSv02")]
    with locked(cache / f".{store.name}.lock"):  # as another process does while it extracts
        for thread in threads:
            thread.start()
        threads[0].join(0.3)
        assert all(thread.is_alive() for thread in threads)
        assert [entry.feature for entry in record_status.scan(FeatureStore(store).storage)] == ["frames"]
    for thread in threads:
        thread.join()
    assert columns == {"ComParE_2016": 65, "eGeMAPSv02": 25}


PLUG_INS = """
import numpy as np
from storyframes.features import ArraySpec, Axis, FeatureSpec
from tasks.extractors.frame_pass import FrameExtractor

seen = {}

def one(name):
    return FeatureSpec(name, "a test's", {"values": ArraySpec(Axis.FRAME, "float32", "a test's")})

class One(FrameExtractor):
    spec, version = one("one"), 1
    def rows(self, batch):
        seen.setdefault(self.name, []).append(id(batch.rgb))
        return batch.rgb.mean(axis=(1, 2, 3))

class Two(One):
    spec = one("two")

class After(FrameExtractor):
    spec, version, after = one("aaa"), 1, ("frames", "two")
    def rows(self, batch):
        return np.zeros(len(batch))
"""
IN_A_PROCESS = """
import sys
import storyframes
view = storyframes.extract(sys.argv[1], ["aaa", "one", "opensmile"], cache=sys.argv[2])
print(view.asked, view.failed, len(view.to_pandas("one")), len(view.to_pandas("aaa")))
view.to_pandas("opensmile")
import some_plug_ins
assert len(some_plug_ins.seen["one"]) == 7
assert some_plug_ins.seen["one"] == some_plug_ins.seen["two"], "they share the decoded frames"
print(sorted({"prefect", "dask", "distributed", "torch", "scipy", "openvino", "gensim"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_plug_ins_share_a_pass_and_nothing_heavy_is_imported(talk: Path, cache: Path, tmp_path: Path) -> None:
    points = {name.lower(): f"some_plug_ins:{name}" for name in ("One", "Two", "After")}
    there = installed(write(tmp_path / "installed", "some-plug-ins", points, some_plug_ins=PLUG_INS))
    command = [sys.executable, "-c", IN_A_PROCESS, str(talk), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | there)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['aaa', 'one', 'opensmile'] {} 50 50", "[]"]


def test_without_the_pipeline_it_says_how_to_get_it(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("flows", "pydantic")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(PipelineMissingError, match=r"extract\(\) needs pydantic: pip install .*\[pipeline\]"):
        storyframes.extract(talk, "opensmile")


def told(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["extract-file", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_tables_from_the_command_line(talk: Path, tmp_path: Path) -> None:
    out = tmp_path / "talk.parquet"
    code, said, errors = told(talk, "--features", "opensmile", "--out", out)
    assert (code, errors) == (0, f"Next: storyframes extract-file {talk}\n")
    assert said == f"{out}: {len(pd.read_parquet(out))} rows, 67 columns\n"
    table = storyframes.extract(talk, "opensmile").to_pandas()
    pd.testing.assert_frame_equal(pd.read_parquet(out), table)
    assert pd.read_parquet(out).attrs == table.attrs
    code, said, errors = told(talk, "--features", "frames,opensmile.per_frame,glove", "--out", tmp_path / "some.csv")
    assert code == 1
    assert "failed glove: " in errors
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["some.frames.csv", "some.opensmile.per_frame.csv"]
    read = pd.read_csv(tmp_path / "some.opensmile.per_frame.csv", index_col="time")
    made = storyframes.extract(talk, "opensmile").to_pandas("opensmile.per_frame")
    pd.testing.assert_frame_equal(read, made, check_dtype=False, rtol=1e-6)
    code, said, _ = told(talk, "--features", "frames,frames", "--features", "frames", "--out", tmp_path / "one.csv")
    assert (code, said) == (0, f"{tmp_path}/one.csv: 50 rows, 2 columns\n")  # the same thrice is one feature
    code, said, errors = told(talk, "--features", "opensmile", "--no-cache")
    assert (code, said.splitlines()[0]) == (0, "ExtractedFile talk.avi: opensmile")


def test_the_command_tells_caveats_apart_from_its_output(talk: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'[glove]\nvectors = "{VECTORS["vectors"]}"\ndemo_vectors = true\n')
    given = ("--transcript", talk.with_suffix(".json"), "--config", tmp_path / "c.toml")
    code, said, errors = told(talk, "--features", "glove", *given, "--out", tmp_path / "words.csv")
    assert (code, "caveat of" in said) == (0, False), errors
    assert missing(errors, "caveat of glove", "demo word vectors") == []


def test_a_cache_that_cannot_be_written_says_how_to_do_without(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder can be in here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, _, errors = told(talk, "--features", "frames")
    assert (code, f"error {tmp_path}/file" in errors, "--no-cache" in errors) == (2, True, True), errors
    assert told(talk, "--features", "frames", "--no-cache")[0] == 0


def test_calls_of_the_command_that_cannot_work(talk: Path, tmp_path: Path) -> None:
    not_utf8 = Path(shutil.copy(talk, os.fsdecode(os.fsencode(tmp_path) + b"/talk\xff.avi")))
    for arguments, code, said in (
        ([talk, "--features", "opensmile", "--out", tmp_path / "talk.xls"], 2, "ends in .parquet or .csv"),
        ([talk, "--features", "opensmlie"], 2, "is 'opensmile' meant?"),
        ([tmp_path / "absent.avi", "--features", "opensmile"], 2, "no such file"),
        ([talk, "--features", "glove"], 1, "nothing that was asked for came of it"),
        ([talk, "--features", "openface"], 1, "the feature face (docs/mediapipe.md)"),
        ([talk, "--features", "frames", "--out", tmp_path / "no/folder.csv"], 1, "cannot be written"),
        ([not_utf8, "--features", "frames"], 1, "talk\\xff.avi': its path is not UTF-8: rename it"),
        (
            [talk, "--features", "glove", "--transcript", not_utf8],
            1,
            "talk\\xff.avi': its path is not UTF-8: rename it",
        ),
    ):
        ended, _, errors = told(*arguments)
        assert (ended, said in errors) == (code, True), errors
