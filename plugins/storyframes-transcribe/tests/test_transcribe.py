"""Words in the study: at their times, at the right speaker, once, and nowhere else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from planted import Ears, as_int16, planted, said
from storyframes_transcribe.command import _on_cluster, _remark_on_damage, _show
from storyframes_transcribe.models import PUBLISHED, Model, ModelError, PublishedModel, find_model
from storyframes_transcribe.on_cluster import TranscriptionResult
from storyframes_transcribe.recordings import SelectionError, plan_sessions, refuse_handed_in, sound_file
from storyframes_transcribe.session import Outcome, Status
from storyframes_transcribe.voices import RATE, Piece, voiced_pieces
from storyframes_transcribe.words import Heard
from support.commands import ONE_WORKER, storyframes
from support.media.recordings import FPS, with_damaged_sound, write_recording, write_videos, write_wave
from support.messages import missing, naming
from support.models.hub_server import COMMIT, hub_server
from support.studies import make_study
from tiny_whisper import WORD
from transcribing import MODEL, ONSET_S, SETTINGS, WORDS, assert_begin, starts, transcribe
from typer.testing import CliRunner, Result

from flows.cli.app import app
from flows.cluster_work import ClusterWork
from storyframes import FeatureStore
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.media.sound import AudioBlock, sound_length_s
from tasks.study import load_study, read_transcript

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A session of one sound file."""
    root = make_study(tmp_path / "study", audio="a.wav")
    write_wave(root / "a.wav", as_int16(planted(WORDS, 8.0)), RATE)
    return root


# --- times, pieces, files --------------------------------------------------------------------------------------------


def test_a_recording_in_several_files_is_known_by_all_of_them(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", audio="a.wav+b.wav")
    for number, name in enumerate(("a.wav", "b.wav")):
        write_wave(root / name, np.full(RATE, 100 + number), RATE)
    study = load_study(root)
    (recording,) = plan_sessions(study)[0].recordings
    known = sound_file(study, recording, None)
    assert sound_file(study, recording, known) is known
    content = (root / "a.wav").read_bytes() + (root / "b.wav").read_bytes()
    assert (known.bytes, known.sha256) == (len(content), sha256(content).hexdigest())
    write_wave(root / "a.wav", np.full(RATE, 7), RATE)  # of the same size, and older, as a copy may be
    os.utime(root / "a.wav", ns=(0, known.mtime_ns // 2))
    assert sound_file(study, recording, known).sha256 != known.sha256
    write_wave(root / "a.wav", np.full(RATE // 2, 7), RATE)
    assert sound_file(study, recording, known).sha256 != known.sha256


def test_planted_words_begin_where_they_were_said(study: Path) -> None:
    outcome = transcribe(study, Ears(*(word for word, _ in WORDS)))["s@main"]
    assert (outcome.status, outcome.words, outcome.reason) == (Status.MADE, 4, "")
    path = study / "transcripts/s.json"
    assert_begin(path, WORDS)
    texts = [utterance.text for utterance in read_transcript(path).utterances]
    assert texts == ["harmonica", "velvet marmalade", "lantern"]  # a pause of 0.6 s ends an utterance
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    content = json.loads(path.read_text())
    assert {word["confidence"] for utterance in content["utterances"] for word in utterance["words"]} == {0.75}
    assert content["provenance"]["language"] == "en"
    assert content["provenance"]["sound"]["path"] == "a.wav"


def test_seconds_are_those_of_the_first_frame(tmp_path: Path) -> None:
    """The picture begins at 0.3 s of the container, the sound 0.6 s later; the last word is after the picture."""
    root = make_study(tmp_path / "study", video="v.mkv")
    sound = as_int16(planted(WORDS, 8.0))[:, None]
    write_recording(root / "v.mkv", 6 * FPS, sound, picture_at_s=0.3, sound_at_s=0.9)
    outcome = transcribe(root, Ears(*(word for word, _ in WORDS)))["s@main"]
    assert (outcome.words, outcome.outside) == (3, 1)
    assert_begin(root / "transcripts/s.json", [(word, at + 0.6) for word, at in WORDS[:3]])


def test_pieces_are_cut_in_silences_and_change_nothing() -> None:
    words = [("velvet", at) for at in np.arange(1.0, 39, 1.5).tolist()]
    sound = planted(words, 40.0)
    blocks = [AudioBlock(0.25 + first / RATE, sound[first : first + 777]) for first in range(0, len(sound), 777)]
    pieces = list(voiced_pieces(blocks, 0.5, piece_s=8.0))
    assert len(pieces) > 4
    assert max(len(piece.samples) for piece in pieces) < 10 * RATE
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in pieces]), sound)
    np.testing.assert_allclose([piece.end_s for piece in pieces[:-1]], [piece.start_s for piece in pieces[1:]])
    ears = Ears(*["velvet"] * len(words))
    heard = [word.start_s for piece in pieces for word in ears.hear(piece, None).words]
    np.testing.assert_allclose(heard, [0.25 + at for _, at in words], atol=ONSET_S)
    assert max(np.abs(piece.samples[[0, -1]]).max() for piece in pieces) < 0.001  # no word is cut


def test_silence_and_music_without_voice_give_an_empty_transcript(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", audio="a.wav")
    write_wave(root / "a.wav", as_int16(planted([], 3.0)), RATE)
    ears = Ears()
    assert transcribe(root, ears)["s@main"].words == 0
    assert (ears.calls, read_transcript(root / "transcripts/s.json").utterances) == (0, ())


@pytest.mark.needs("ffmpeg")
def test_no_word_is_lost_where_a_header_guesses_how_long_the_sound_is(tmp_path: Path) -> None:
    """Raw AAC has no length: FFmpeg guesses it by the rate of the first seconds, which are the loudest here."""
    root = make_study(tmp_path / "study", audio="a.aac")
    noise = np.clip(0.4 * np.random.default_rng(0).standard_normal(2 * RATE), -1, 1)
    parts = [as_int16(noise), np.zeros(10 * RATE, np.int16), as_int16(said("velvet")), np.zeros(RATE, np.int16)]
    write_wave(root / "a.wav", np.concatenate(parts), RATE)
    subprocess.run(["ffmpeg", "-v", "error", "-i", root / "a.wav", "-b:a", "64k", root / "a.aac"], check=True)
    assert sound_length_s(root / "a.aac") < 10
    outcome = transcribe(root, Ears("velvet"))["s@main"]
    assert (outcome.status, outcome.words, outcome.outside) == (Status.MADE, 1, 0)
    assert starts(root / "transcripts/s.json")[0][1] == pytest.approx(12.0, abs=0.1)  # the coder adds a few hundredths


def test_a_session_without_sound_is_told_and_no_failure(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", video="v.mkv")
    write_recording(root / "v.mkv", FPS)
    outcome = transcribe(root, Ears())["s@main"]
    assert (outcome.status, outcome.reason) == (Status.SILENT, "v.mkv: has no audio track")
    assert not (root / "transcripts/s.json").exists()


# --- nothing twice, nothing lost -------------------------------------------------------------------------------------


def test_what_is_there_is_made_again_only_where_it_would_be_another(study: Path) -> None:
    words = [word for word, _ in WORDS]
    transcribe(study, Ears(*words))
    path = study / "transcripts/s.json"
    before = path.stat().st_mtime_ns
    os.utime(study / "a.wav")  # another time, the same sound
    ears = Ears()
    assert transcribe(study, ears)["s@main"].status is Status.CURRENT
    assert (ears.calls, path.stat().st_mtime_ns) == (0, before)
    for model, settings in ((Model("a model", Path(), "1" * 64), {}), (MODEL, {"beam_size": 2})):
        assert transcribe(study, Ears(*words), model, **settings)["s@main"].status is Status.MADE
    write_wave(study / "a.wav", as_int16(planted(WORDS[:2], 8.0)), RATE)
    assert transcribe(study, Ears(*words[:2]))["s@main"].words == 2


def test_a_transcript_that_was_handed_in_stays(study: Path) -> None:
    text = '{"utterances": []}'
    (study / "own.json").write_text(text)
    (study / "sessions.csv").write_text("session_id,participant_id,audio,transcript\ns,p,a.wav,own.json\n")
    assert transcribe(study, Ears())["s@main"].status is Status.KEPT
    with pytest.raises(SelectionError, match=naming("own.json", "transcript")):
        loaded = load_study(study)
        refuse_handed_in(loaded, plan_sessions(loaded), ["s"], [])
    assert (study / "own.json").read_text() == text
    assert not (study / "transcripts").exists()


@pytest.mark.parametrize(
    "content", ['{"utterances": []}', "no JSON", '{"provenance": {"made_by": "x"}, "utterances": []}']
)
def test_a_file_of_somebody_else_in_its_place_stays(study: Path, content: str) -> None:
    (study / "transcripts").mkdir()
    (study / "transcripts/s.json").write_text(content)
    outcome = transcribe(study, Ears())["s@main"]
    assert outcome.status is Status.KEPT
    assert missing(outcome.reason, "transcripts/s.json", "replaced") == []
    assert (study / "transcripts/s.json").read_text() == content


def test_a_correction_by_hand_stays(study: Path) -> None:
    words = [word for word, _ in WORDS]
    transcribe(study, Ears(*words))
    path = study / "transcripts/s.json"
    corrected = path.read_text().replace("lantern", "Lantern!")
    path.write_text(corrected)
    outcome = transcribe(study, Ears(*words), Model("b", Path(), "1" * 64))["s@main"]
    assert outcome.status is Status.KEPT
    assert "was corrected by hand" in outcome.reason
    assert "antern" not in outcome.reason
    assert path.read_text() == corrected


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A folder of two videos, and nothing else."""
    folder = tmp_path / "study"
    (folder / "videos").mkdir(parents=True)
    for name, voice in (("anna-1", "en-us"), ("ben-1", "en-gb")):
        sound = as_int16(planted([("harmonica", 0.6), ("velvet", 1.8)], 4.0, voice))[:, None]
        write_recording(folder / "videos" / f"{name}.mkv", 4 * FPS, sound)
    return folder


@pytest.mark.slow
def test_from_a_folder_of_videos_to_rows_in_two_commands_by_a_cluster_and_no_word_elsewhere(
    videos: Path, whisper: Path, demo_study: Path, tmp_path: Path, own_state: dict[str, str]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    vectors = demo_study.parent / "glove.demo.300d.txt"
    config = tmp_path / "config.toml"
    config.write_text(f'[glove]\nvectors = "{vectors}"\ndemo_vectors = true\n[transcribe]\nmodel = "{whisper}"\n')
    around = {**own_state, "TMPDIR": str(temporary)}
    arguments = ("transcribe", videos, "--recordings", "videos/*", "--config", config, *ONE_WORKER, "--json")
    made = storyframes(*arguments, environment=around)
    assert made.returncode == 0, made.stderr
    outcomes = json.loads(made.stdout)
    assert {one["session_id"]: one["status"] for one in outcomes["transcripts"]} == {"anna-1": "made", "ben-1": "made"}
    assert outcomes["named"] == 2
    assert "anna-1: made, " in made.stderr
    features = ("--features", "frames,glove,sbert", "--config", config)
    extracted = storyframes("extract", videos, tmp_path / "store", *features, environment=around)
    assert extracted.returncode == 0, extracted.stderr
    store = FeatureStore(tmp_path / "store")
    for session in ("anna-1", "ben-1"):
        transcript = read_transcript(videos / f"transcripts/{session}.json")
        assert len(transcript.words()) > 5
        assert len(store.read(session, "glove")) == len(transcript.words())
        assert len(store.read(session, "sbert")) == len(transcript.utterances)
    pattern = re.compile(WORD.encode())
    assert pattern.search((videos / "transcripts/ben-1.json").read_bytes())
    places = [tmp_path / "store", Path(own_state["XDG_STATE_HOME"]), temporary, Path(os.environ["XDG_CACHE_HOME"])]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)  # the Prefect server's
    assert [path for path in files if pattern.search(path.read_bytes())] == []
    printed = "".join([made.stdout, made.stderr, extracted.stdout, extracted.stderr])
    assert not pattern.search(printed.encode())


def test_a_microphone_that_loses_all_its_words_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a microphone whose gain is far lower, its own person's words are the softer ones."""
    kept, lost = (Outcome("s", track, Status.MADE, words, 5) for track, words in (("a", 3), ("b", 0)))
    _show([kept, lost], 0, Path("study"))
    a, b, *_ = " ".join(capsys.readouterr().out.split()).split("s@b")
    assert "gain" not in a
    assert missing(b, "5 heard", "microphone") == []


def test_workers_get_the_whole_path_of_a_model_in_the_working_directory(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is called what was asked for, as a published model is."""
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    given: list[ClusterWork[Outcome]] = []

    def run_work(run: ClusterWork[Outcome], *_: object) -> TranscriptionResult:
        given.append(run)
        return TranscriptionResult(())

    monkeypatch.setattr("storyframes_transcribe.on_cluster.load_cluster", lambda cluster: cluster)
    monkeypatch.setattr("flows.cli.run_work", run_work)
    loaded = load_study(study)
    settings = SETTINGS.model_copy(update={"model": "tiny"})
    model = Model("tiny", Path("tiny"), "0" * 64)
    _on_cluster(loaded, plan_sessions(loaded), [], settings, FIRST_STREAMS, model, "cluster.yaml")
    assert [unit.settings.model for unit in given[0].units] == [str(tmp_path / "tiny")]


@pytest.mark.needs("unshare")
@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_without_a_network(videos: Path, whisper: Path) -> None:
    arguments = ("transcribe", videos, "--recordings", "videos/*", "--model", whisper)
    first = videos / "transcripts/anna-1.json"
    with subprocess.Popen([sys.executable, "-m", "flows.cli", *map(str, arguments)], stderr=subprocess.PIPE) as run:
        while not first.exists():
            assert run.poll() is None
            time.sleep(0.005)
        run.send_signal(signal.SIGKILL)
    before = first.stat().st_mtime_ns
    leftover = videos / "transcripts/.ben-1.json.0a1b2c3d.tmp"  # as a writer leaves it that is killed while it writes
    leftover.write_text("harmonica")
    offline = (
        ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    )  # not even a loopback
    command = [*offline, sys.executable, "-m", "flows.cli", *map(str, arguments), "--json"]
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    outcomes = {one["session_id"]: one["status"] for one in json.loads(again.stdout)["transcripts"]}
    assert outcomes["anna-1"] == "there already"
    assert first.stat().st_mtime_ns == before
    assert (videos / "transcripts/ben-1.json").is_file()
    assert not leftover.exists()
    table = (videos / "sessions.csv").read_text()
    assert "transcripts/anna-1.json" in table
    assert "transcripts/ben-1.json" in table


def command(*arguments: object) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_without_the_model_one_sentence_says_how_to_get_it(study: Path, whisper: Path, tmp_path: Path) -> None:
    absent = command("transcribe", study)
    assert absent.exit_code == 2
    assert missing(absent.stderr, "3.1 GB", "MIT", "hf:Systran/") == []
    nowhere = command("transcribe", study, "--model", "gone")
    assert missing(nowhere.stderr, "large-v3", "large-v2") == []
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/model.bin").write_bytes(b"x")
    assert "lacks config.json, tokenizer.json" in command("transcribe", study, "--model", tmp_path / "empty").stderr
    assert not (study / "transcripts").exists()


@pytest.mark.slow
def test_a_published_model_is_fetched_at_its_commit_and_every_file_checked(
    whisper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in whisper.iterdir()}
    published = PublishedModel("somebody/whisper", COMMIT, "MIT", digests)
    monkeypatch.setitem(PUBLISHED, "tiny", published)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelError, match=rf"'storyframes models fetch hf:somebody/whisper@{COMMIT}' gets it"):
        find_model("tiny")
    with hub_server({"somebody/whisper": whisper}) as (url, _):
        around = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": ""}
        fetched = storyframes("models", "fetch", published.source, environment=around)
    assert fetched.returncode == 0, fetched.stderr
    found = find_model("tiny")
    assert (found.name, found.sha256) == ("tiny", find_model(str(whisper)).sha256)
    (found.folder / "vocabulary.json").write_text("[]")
    with pytest.raises(ModelError, match=r"vocabulary.json has not the SHA-256 of hf:somebody/whisper@"):
        find_model("tiny")


def test_a_file_of_somebody_else_is_not_named_in_the_tables(study: Path, whisper: Path) -> None:
    before = (study / "sessions.csv").read_text()
    (study / "transcripts").mkdir()
    (study / "transcripts/s.json").write_text('{"utterances": []}')
    kept = command("transcribe", study, "--model", whisper)
    assert kept.exit_code == 0
    assert "was not made by storyframes-transcribe" in kept.stderr
    assert (study / "sessions.csv").read_text() == before


def test_a_dry_run_writes_nothing(study: Path, whisper: Path) -> None:
    before = sorted(study.iterdir())
    shown = command("transcribe", study, "--model", whisper, "--dry-run")
    assert shown.exit_code == 0, shown.stderr
    assert "s: a.wav: to be transcribed" in shown.stdout
    assert sorted(study.iterdir()) == before


def test_a_table_that_cannot_be_changed_is_told_before_any_work(study: Path, whisper: Path) -> None:
    (study / "sessions.csv").write_text("session_id;participant_id;audio\ns;p;a.wav\n")
    refused = command("transcribe", study, "--model", whisper)
    assert refused.exit_code == 2
    assert missing(refused.stderr, "CSV", "UTF-8") == []
    assert not (study / "transcripts").exists()


def test_words_that_the_model_lets_last_too_long_end_with_the_voice(study: Path) -> None:
    class Dragging(Ears):
        def hear(self, piece: Piece, language: str | None) -> Heard:
            heard = super().hear(piece, language)
            return replace(heard, words=tuple(replace(word, end_s=word.end_s + 9) for word in heard.words))

    transcribe(study, Dragging(*(word for word, _ in WORDS)))
    assert_begin(study / "transcripts/s.json", WORDS)
    lantern_s = len(said("lantern")) / RATE
    assert read_transcript(study / "transcripts/s.json").end_s == pytest.approx(6.0 + lantern_s, abs=0.1)


def test_the_chosen_sound_is_transcribed_in_the_seconds_of_the_chosen_picture(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", video="v.mkv")
    said, black = as_int16(planted(WORDS, 8.0))[:, None], np.zeros((50, 16, 16, 3), np.uint8)
    write_videos(root / "v.mkv", [(black, 0, 200), (black, 300, 200)], {"eng": 0 * said, "fra": said})
    assert transcribe(root, Ears())["s@main"].words == 0
    path = root / "transcripts/s.json"
    assert "stream" not in str(json.loads(path.read_text())["provenance"]["settings"])
    outcome = transcribe(root, Ears(*(word for word, _ in WORDS)), streams=StreamChoice(1, 1))["s@main"]
    assert (outcome.status, outcome.words) == (Status.MADE, 4)
    assert_begin(path, [(word, at - 0.3) for word, at in WORDS])
    assert transcribe(root, Ears(), streams=StreamChoice(1, 1))["s@main"].status is Status.CURRENT
    outcome = transcribe(root, Ears(), streams=StreamChoice(1, 2))["s@main"]
    assert missing(outcome.reason, "v.mkv", "sound_stream = 2") == []


def test_damaged_sound_is_named_also_where_the_transcript_is_there_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_study(tmp_path / "study", video="v.mp4")
    write_recording(tmp_path / "whole.mp4", 8 * FPS, as_int16(planted(WORDS, 8.0))[:, None], codec="flac")
    with_damaged_sound(tmp_path / "whole.mp4", root / "v.mp4", [20, 21])
    for status in (Status.MADE, Status.CURRENT):
        outcome = transcribe(root, Ears(*(word for word, _ in WORDS)))["s@main"]
        assert (outcome.status, outcome.damaged) == (status, 2)
    _remark_on_damage([outcome, replace(outcome, track="lapel", damaged=0)])
    assert missing(capsys.readouterr().err, "s: 2 packets") == []
