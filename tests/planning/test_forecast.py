"""What a study will take: the sums, the samples they are measured on, the command."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.media.newcomer import RECORDINGS, SENTENCES, record, speak
from support.media.recordings import write_recording
from support.messages import missing, naming

from tasks.extract import extract
from tasks.extractors.base import Input
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.recording import read_frame_times
from tasks.media.sound import read_audio
from tasks.planning.forecast import Recording, forecast, longest_worker, measure_study
from tasks.planning.plan import plan_extraction
from tasks.planning.rates import ArrayRate, Rate, measure_rates, with_pass
from tasks.planning.sample import Sample, SampleError, cut_boxes, cut_recording, cut_table, cut_transcript
from tasks.planning.selection import Selection, SelectionError
from tasks.study.boxes import Boxes
from tasks.study.load import load_study
from tasks.study.transcript import read_transcript

ROOT = Path(__file__).parents[2]


def sessions(rates: list[Rate], *lengths_s: float) -> list[Recording]:
    """Of sessions without other tracks, of which everything can be made."""
    return [
        Recording("main", length_s, frozenset(["frames", *(rate.feature for rate in rates)])) for length_s in lengths_s
    ]


def test_the_sums() -> None:
    rates = [
        Rate("frames", task_s=0.3, cpu_s=0.1, task_bytes=1000, arrays=(ArrayRate(2, 50, per_frame=1),)),
        Rate("resnet50", start_s=5, task_s=0.8, cpu_s=1.0, arrays=(ArrayRate(50, 1, per_second=2),)),
        Rate("dope", reason="there is no model"),
    ]
    rate_of = {100: 5.0, 200: 20.0}
    recordings = [
        replace(one, frames=one.length_s * rate_of.get(one.length_s, 0)) for one in sessions(rates, 100, 200, 0)
    ]
    result = forecast(rates, recordings, workers=1)  # the third counts as 150 s with 15 frames a second
    assert (result.sessions, result.tracks, result.recorded_s) == (3, 0, 450)
    frames, resnet50, dope = result.features
    assert (frames.cpu_s_per_minute, frames.cpu_s, frames.bytes) == (
        6,
        pytest.approx(45.9),
        3000 + 13_500 + 135 * 16 + 3 * 4,
    )
    assert (resnet50.cpu_s_per_minute, resnet50.cpu_s, resnet50.bytes) == (
        60,
        pytest.approx(452.4),
        45_000 + 900 * 16 + 3 * 4,
    )
    assert (dope.cpu_s, dope.bytes, dope.reason) == (0, 0, "there is no model")
    assert result.bytes == frames.bytes + resnet50.bytes
    assert result.wall_s == pytest.approx(result.cpu_s) == pytest.approx(45.9 + 452.4 + 5 + 6 * 0.2)


def test_the_pictures_are_decoded_once_for_all_features_of_a_pass() -> None:
    """One CPU-second for each second of a recording of 100 s is decoding."""
    clock = Rate("frames", cpu_s=1.0, decoding_s=1.0)
    of_pass = {"cpu_s": 3.0, "decoding_s": 1.0, "after": ("frames",), "is_of_pass": True}
    pictures = [Rate("resnet50", **of_pass), Rate("dope", **of_pass)]
    sound = Rate("opensmile", cpu_s=0.5, after=("frames",))
    faces = Rate("faces", **of_pass | {"after": ("frames", "resnet50")})
    one = Recording("main", 100.0, frozenset(["frames", "resnet50", "dope", "opensmile", "faces"]))

    def seconds(rates: list[Rate], recording: Recording = one) -> tuple[float, list[float]]:
        result = forecast(rates, [recording], workers=1)
        return result.cpu_s, [feature.cpu_s for feature in result.features]

    assert seconds([clock, *pictures]) == (500 + 0.2, [100, 200, 200])  # one pass, and one task
    assert seconds([clock, *pictures, sound]) == (650 + 3 * 0.2, [100, 300, 200, 50])  # which waits for the clock
    first_needs_clock = [replace(pictures[0], needs_clock=True), pictures[1]]
    assert seconds([clock, *first_needs_clock]) == (600 + 2 * 0.2, [100, 300, 200])
    assert seconds([clock, *pictures, faces]) == (800 + 2 * 0.2, [100, 200, 200, 300])  # a pass of its own, later
    assert seconds([clock, *pictures], replace(one, has_regions=True))[0] == 600 + 2 * 0.2
    assert seconds([clock, *pictures], replace(one, is_decoded=False))[0] == 400 + 2 * 0.2


def test_rates_know_which_features_share_the_decoding() -> None:
    extractors = build_extractors(ExtractorsSettings(), "")
    rates = [with_pass(Rate(name, cpu_s=3.0), extractors[name], 1.0) for name in ("frames", "resnet50", "opensmile")]
    assert [rate.decoding_s for rate in rates] == [1.0, 1.0, 0.0]
    assert [(rate.after, rate.is_of_pass) for rate in rates] == [((), False), (("frames",), True), (("frames",), False)]
    three = 300 + 300 + 300 + 3 * 0.2  # opensmile waits for the clock, which decodes by itself
    assert forecast(rates, sessions(rates, 100), 1).cpu_s == pytest.approx(three)
    assert forecast(rates[:2], sessions(rates, 100), 1).cpu_s == pytest.approx(300 + 200 + 0.2)


def test_two_workers_are_twice_as_fast_where_the_work_divides() -> None:
    rates = [Rate("resnet50", cpu_s=1.0)]
    one, two = (forecast(rates, sessions(rates, *[1000] * 8), workers).wall_s for workers in (1, 2))
    assert one / two == pytest.approx(2)
    three = forecast(
        rates, sessions(rates, *[1000] * 4), workers=3
    ).wall_s  # one of the three has two of the four sessions
    assert three == pytest.approx(2 * 1000.2)
    alone = forecast(rates, sessions(rates, 1000), workers=2).wall_s  # but a lone session is shared
    assert alone == pytest.approx(500.1)


@given(units=st.lists(st.floats(0, 100), min_size=1, max_size=40), workers=st.integers(1, 8))
def test_the_last_worker_ends_within_one_unit_of_the_mean(units: list[float], workers: int) -> None:
    bound = sum(units) / workers
    ends = longest_worker(units, workers)
    assert max(bound, max(units)) <= ends * (1 + 1e-9) + 1e-9
    assert ends <= bound + max(units) + 1e-9


def test_boxes_of_somebody_who_comes_later_are_cut_from_then_on(tmp_path: Path) -> None:
    late = "time_s,x,y,w,h\n0,,,,\n40,0.1,0.2,0.3,0.4\n41,0.2,0.2,0.3,0.4\n42,,,,\n"
    for name, content, times in (("late", late, [0, 1, 2]), ("soon", late.replace("40,", "2,"), [0, 2, 41, 42])):
        (tmp_path / f"{name}.csv").write_text(content)
        boxes = Boxes.read(cut_boxes(tmp_path / f"{name}.csv", tmp_path / f"{name}-cut.csv", 3))
        assert boxes.time_s.tolist() == times
        assert boxes.box[-3:-1, 0].tolist() == [0.1, 0.2]
        assert np.isnan(boxes.box[-1]).all()
    with pytest.raises(SampleError, match="is missing"):
        (tmp_path / "late.csv").write_text("time_s\n0\n")
        cut_boxes(tmp_path / "late.csv", tmp_path / "cut.csv", 3)


def test_samples_are_what_the_recording_begins_with(demo_study: Path, tmp_path: Path) -> None:
    video = demo_study / "videos/p01-s01.avi"
    cut_recording(video, tmp_path / "cut.avi", 3)
    frames = read_frame_times(tmp_path / "cut.avi")
    assert (len(frames.time), frames.truncated) == (45, False)
    assert sum(len(block.samples) for block in read_audio(tmp_path / "cut.avi", 16_000)) == pytest.approx(
        48_000, abs=2000
    )
    cut_table(demo_study / "openface/p01-s01.csv.gz", tmp_path / "cut.csv.gz", 45)
    import gzip

    with gzip.open(tmp_path / "cut.csv.gz") as file:
        assert len(file.readlines()) == 46
    cut_transcript(demo_study / "transcripts/p01-s01.json", tmp_path / "cut.json", 3, 24)
    (utterance,) = read_transcript(tmp_path / "cut.json").utterances
    assert utterance.end_s == pytest.approx(3)


@pytest.mark.parametrize(("owner", "mode"), [(0, 0o644), (0, 0o600), (12345, 0o440), (12345, 0o600)])
def test_who_may_read_a_recording_may_read_its_cut(demo_study: Path, tmp_path: Path, owner: int, mode: int) -> None:
    video = Path(shutil.copy(demo_study / "videos/p01-s01.avi", tmp_path / "a.avi"))
    video.chmod(mode)
    if os.geteuid() == 0:
        os.chown(video, owner, owner)
    before = os.umask(0o077)
    try:
        cut_recording(video, tmp_path / "cut.avi", 1)
    finally:
        os.umask(before)
    cut = (tmp_path / "cut.avi").stat()
    assert (cut.st_uid, cut.st_mode & 0o777) == (video.stat().st_uid, mode | 0o600)


@pytest.mark.parametrize("suffix", ["avi", "mp4", "mkv", "ts"])
def test_a_cut_of_a_recording_wherever_its_clock_begins(tmp_path: Path, suffix: str) -> None:
    video = write_recording(tmp_path / f"v.{suffix}", 50, picture_at_s=3.0 if suffix in ("mkv", "ts") else 0.0)
    cut_recording(video, tmp_path / f"cut.{suffix}", 1)
    assert len(read_frame_times(tmp_path / f"cut.{suffix}").time) == 25


def test_what_cannot_be_cut_is_an_error(tmp_path: Path) -> None:
    for name, cut, why in (
        ("a.avi", cut_recording, "is not a media file that FFmpeg can read"),
        ("a.csv.gz", cut_table, "no sample of it can be cut \\(Not a gzipped file"),
    ):
        (tmp_path / name).write_bytes(b"neither this nor that")
        with pytest.raises(SampleError, match=f"{name}: {why}"):
            cut(tmp_path / name, tmp_path / f"cut-{name}", 3)


@pytest.mark.parametrize("kind", [*{*Input} - {Input.MICROPHONES, Input.TURNS}])  # sound files, and a transcript
def test_every_input_of_a_recording_can_be_cut(demo_study: Path, tmp_path: Path, kind: Input) -> None:
    """The stories are no session's, and a curve is not measured."""
    session = load_study(demo_study).sessions["p01-s01"]
    sample = Sample(tmp_path, seconds=2, of_s=24)
    if kind in (Input.STORIES, Input.CURVE):
        with pytest.raises(SampleError, match=naming("stories.csv", "sample")):
            sample.cut(kind, demo_study / "stories.csv", 30)
        return
    if kind is Input.REGION:  # boxes are of moments: those of the sample are among them
        (tmp_path / "boxes.csv").write_text("time_s,x,y,w,h\n0,0.1,0.1,0.5,0.5\n")
        cut, _ = sample.cut(kind, tmp_path / "boxes.csv", 30)
        assert cut.path.read_bytes() == (tmp_path / "boxes.csv").read_bytes()
        return
    original = demo_study / (getattr(session, kind) or session.video)
    cut, stands_for_s = sample.cut(kind, original, 30)
    assert stands_for_s == pytest.approx(24 / 5 if kind is Input.TRANSCRIPT else 2)  # it is one of five utterances
    assert cut.path.stem.split(".")[0] == original.stem.split(".")[0]  # errors name the file by it
    assert 0 < cut.bytes < original.stat().st_size
    match kind:
        case Input.VIDEO:
            assert len(read_frame_times(cut.path).time) == 30
        case Input.AUDIO:
            assert sum(len(block.samples) for block in read_audio(cut.path, 16_000)) == pytest.approx(32_000, rel=0.05)
        case Input.OPENFACE:
            assert len(gzip.decompress(cut.path.read_bytes()).splitlines()) == 31
        case Input.TRANSCRIPT:
            assert max(one.end_s for one in read_transcript(cut.path).utterances) <= 2


@pytest.mark.slow
def test_rates_of_the_demo_study(demo_study: Path) -> None:
    study = load_study(demo_study)
    settings = ExtractorsSettings(features=("frames", "openface", "opensmile", "glove"))
    rates = {rate.feature: rate for rate in measure_rates(study, "p01-s01", settings, 8, lambda *_: None)}
    assert list(rates) == ["frames", "openface", "opensmile", "glove"]
    assert rates["glove"].reason
    assert rates["openface"].stored_bytes(0, 6000) == pytest.approx(6000 * (714 * 4 + 1 + 4), rel=0.01)
    assert rates["frames"].stored_bytes(0, 6000) == pytest.approx(6000 * 8, rel=0.1)
    assert 0.001 < rates["opensmile"].cpu_s < 1


NEWCOMERS = ("p01_phone.mp4", "p04_browser.webm", "p06_webcam.avi", "p07_screen.mkv", "p08_fast.mp4", "p09_slow.mp4")


@pytest.mark.needs("espeak-ng")
@pytest.mark.slow
def test_the_disk_that_a_newcomers_study_needs(tmp_path: Path) -> None:
    """Phones, browsers, a silent video and a sound alone, at 5 to 48 frames a second."""
    media = tmp_path / "study"
    media.mkdir()
    voice = speak(tmp_path / "voice.wav", SENTENCES[0], 4)
    for made in RECORDINGS:
        if made.name in (*NEWCOMERS, "p10_voice.wav", "p12_silent.mp4"):
            record(media, made, voice, 4)
    rows = [f"{path.stem},{path.stem},{path.name}," for path in sorted(media.iterdir()) if path.suffix != ".wav"]
    table = ["session_id,participant_id,video,audio", *rows, "p10_voice,p10_voice,,p10_voice.wav"]
    (media / "sessions.csv").write_text("\n".join(table) + "\n")
    study, settings = load_study(media), ExtractorsSettings(features=("frames", "opensmile"))

    plan = plan_extraction(study, tmp_path / "features", settings, Selection())
    stored: Counter[str] = Counter()
    for outcome in (outcome for unit in plan.units for outcome in extract(unit)):
        stored[outcome.feature] += outcome.bytes
    assert len([unit for unit in plan.units if unit.features == ("opensmile",)]) == 8

    done: list[tuple[str, int, int]] = []
    measured = measure_study(study, settings, 3, lambda *step: done.append(step), lambda *_: None)
    expected = {one.feature: one.bytes for one in forecast(measured.rates, measured.recordings, 1).features}
    for feature, size in stored.items():
        assert expected[feature] == pytest.approx(size, rel=0.1)
    assert [step[1:] for step in done] == [(n, 8) for n in range(1, 9)] + [(n, 6) for n in range(1, 7)]
    assert (done[0][0], done[-1][0]) == ("the header of p01_phone", "opensmile, 3.0 s of p01_phone")

    some = Selection(session_ids=("p08_fast", "p09_slow"), only=("frames",))
    measured = measure_study(study, settings, 3, lambda *_: None, lambda *_: None, some)
    result = forecast(measured.rates, measured.recordings, 1)
    assert (result.sessions, [one.feature for one in result.features]) == (2, ["frames"])
    with pytest.raises(SelectionError, match="there is no session 'p99'"):
        measure_study(study, settings, 3, lambda *_: None, lambda *_: None, Selection(session_ids=("p99",)))


@pytest.mark.slow
def test_the_command(demo_study: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('features = ["frames", "opensmile", "glove"]\n')
    command = [
        sys.executable,
        "-m",
        "flows.cli",
        "plan",
        str(demo_study),
        "--config",
        str(config),
        "--seconds",
        "4",
    ]
    done = subprocess.run([*command, "--workers", "3"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert missing(done.stdout, "3 sessions", "72 s") == []
    assert "with 3 workers" in done.stdout
    assert missing(done.stdout, "glove is not in") == []
    part = [*command, "--session", "p01-s01", "--features", "frames,opensmile", "--json"]
    told = json.loads(subprocess.run(part, capture_output=True, text=True, cwd=ROOT).stdout)
    assert (told["sessions"], told["recorded_s"]) == (1, pytest.approx(24))
    assert [feature["feature"] for feature in told["features"]] == ["frames", "opensmile"]
    assert told["wall_s"] > 0 < told["bytes"]
    assert told["processes_per_gpu"] == 0  # nothing here uses one
