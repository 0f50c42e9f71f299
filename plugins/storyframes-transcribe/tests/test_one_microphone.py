"""Who speaks on one microphone by voice, with planted vectors and weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from planted import as_int16, planted
from storyframes_transcribe.one_microphone.enrolment import Enrolment, VoiceError, alike_voices, match_enrolled
from storyframes_transcribe.one_microphone.naming import settle
from storyframes_transcribe.one_microphone.turns import STEP_S, Turns, Windows, find_turns, match_voices
from storyframes_transcribe.one_microphone.voice_models import VoiceModelError, load_voice_model
from storyframes_transcribe.session import Status
from storyframes_transcribe.transcript_file import ByVoice
from storyframes_transcribe.voices import RATE, voiced_pieces
from support.media.recordings import write_recording, write_wave
from transcribing import WORDS, named, write_meeting
from typer.testing import CliRunner, Result

from flows.cli.app import app
from storyframes import FeatureStore, attribute, read_speech
from tasks.media import AudioBlock
from tasks.study import read_transcript

pytestmark = [pytest.mark.slow, pytest.mark.needs("faster_whisper")]

SIZE = 64
LEAST = 0.9


def voices(count: int) -> np.ndarray:
    """(count, SIZE) vectors of length 1 whose cosines are about 0.7, as those of persons."""
    vectors = np.random.default_rng(1).random((count, SIZE)) + 0.4 * np.eye(count, SIZE) * SIZE**0.5
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def windows(means: np.ndarray, deviation: float = 0.03) -> Windows:
    """Windows of voice without pauses, each with its own noise."""
    noise = np.random.default_rng(2).normal(0, deviation, means.shape)
    vectors = (means + noise) / np.linalg.norm(means + noise, axis=1, keepdims=True)
    start_s = np.arange(len(means)) * STEP_S
    return Windows(start_s, start_s + STEP_S, np.full(len(means), 1.6), vectors)


@pytest.mark.parametrize("count", [2, 3])
def test_each_voice_has_its_words_and_a_mixture_has_none(count: int) -> None:
    known = voices(count)
    owners = np.repeat(np.arange(24) % count, 10)  # turns of 2.5 s
    means = known[owners]
    means[100:110] = (known[0] + known[1]) / 2  # both at once
    turns = find_turns(windows(means), count)
    spans = [(step * STEP_S, (step + 1) * STEP_S) for step in range(len(owners))]
    said = turns.of_spans(spans, LEAST)
    alone = [step for step in range(len(owners)) if not 99 <= step <= 110]
    assert turns.is_distinct
    assert [said[step] for step in alone] == owners[alone].tolist()  # in the order in which they are first heard
    assert turns.are_doubtful(spans[102:108]) == [True] * 6
    assert not any(turns.are_doubtful([spans[step] for step in alone if step % 10 not in (0, 9)]))
    backwards = find_turns(windows(means), count, known[::-1]).of_spans(spans, LEAST)
    assert [backwards[step] for step in alone] == (count - 1 - owners[alone]).tolist()
    end_s = len(owners) * STEP_S
    assert turns.of_spans([(end_s + 0.1, end_s + 0.2), (end_s + 1, end_s + 2)], LEAST) == [owners[-1], None]


def test_voices_enrolled_on_another_microphone_are_learned_from_the_recording() -> None:
    known = voices(2)
    owners = np.repeat(np.arange(24) % 2, 10)
    enrolled = known.copy()
    enrolled[0] += np.random.default_rng(3).normal(0, 0.175, SIZE)
    turns = find_turns(windows(known[owners], 0.08), 2, enrolled / np.linalg.norm(enrolled, axis=1, keepdims=True))
    spans = [(step * STEP_S, (step + 1) * STEP_S) for step in range(len(owners))]
    assert turns.of_spans(spans, LEAST) == owners.tolist()
    assert (np.sum(turns.centres * known, axis=1) > 0.95).all()


def test_a_run_is_of_one_voice_without_a_pause_and_surely_or_not() -> None:
    start_s = np.array([0, 1, 2, 3, 4, 6, 7]) / 4
    likely = np.array([0.98, 0.96, 0.7, 0.02, 0.04, 0.03, 0.4])
    turns = Turns(
        start_s, start_s + STEP_S, np.stack([likely, 1 - likely], 1), np.eye(2), np.zeros(7, bool), is_distinct=True
    )
    assert list(turns.runs(0.9)) == [
        (0.0, 0.5, 0, 0.97),
        (0.5, 0.75, 0, 0.7),
        (0.75, 1.25, 1, 0.97),
        (1.5, 1.75, 1, 0.97),
        (1.75, 2.0, 1, 0.6),
    ]
    for few in (0, 1):
        assert list(find_turns(windows(voices(2)[:few]), 2).runs(0.9)) == []


def test_where_two_voices_are_as_likely_each_has_a_turn() -> None:
    start_s = np.arange(3) / 4
    likely = np.array([[1, 0], [0.5, 0.5], [0, 1.0]])  # as turns of another program overlap
    turns = Turns(start_s, start_s + STEP_S, likely, np.eye(2), np.zeros(3, bool), is_distinct=True)
    assert list(turns.runs(0.9)) == [(0.0, 0.5, 0, 1.0), (0.25, 0.75, 1, 1.0)]


def test_one_voice_is_not_taken_for_two_without_a_word() -> None:
    alone = windows(voices(1)[np.zeros(200, int)])
    turns = find_turns(alone, 2)
    assert not turns.is_distinct
    assert alike_voices(turns, alone) == {0, 1}


def test_a_voice_is_a_person_s_only_if_it_is_clear() -> None:
    kim, lee, pat = voices(3)
    centres = np.stack([lee, kim])
    assert match_voices(centres, [("kim", kim)], ["kim", "lee"]) == {1: "kim", 0: "lee"}
    assert match_voices(centres, [("kim", kim)], ["kim", "lee", "pat"]) == {1: "kim"}
    assert match_voices(centres, [("pat", pat)], ["pat", "lee"]) == {}
    assert match_voices(centres, [], ["kim", "lee"]) == {}
    assert match_voices(centres[:1], [], ["kim"]) == {0: "kim"}


def test_sound_of_somebody_who_is_not_in_the_recording_names_no_voice() -> None:
    kim, lee, pat = voices(3)
    talk = windows(np.stack([kim, lee])[np.repeat(np.arange(24) % 2, 10)])
    outsider = pat + 0.4 * kim  # more like kim than like lee
    outsider /= np.linalg.norm(outsider)
    turns = find_turns(talk, 2)
    assert match_voices(turns.centres, [("pat", outsider)], ()) == {0: "pat"}
    assert match_enrolled(turns, talk, [("pat", outsider)]) == {}
    assert match_enrolled(turns, talk, [("lee", lee), ("pat", outsider)]) == {1: "lee"}
    learned = find_turns(talk, 2, [lee, outsider])
    assert match_enrolled(learned, talk, [("lee", lee), ("pat", outsider)]) == {0: "lee"}
    assert match_enrolled(turns, talk, [("kim", kim)]) == {0: "kim"}


def test_of_three_voices_one_that_is_like_another_one_is_nobody_s_by_what_is_left_over() -> None:
    kim, lee, pat = voices(3)
    parts = [kim + 0.12 * part for part in np.eye(2, SIZE)]  # of one person in two moods
    by = ByVoice(model={}, rules=1, persons=("kim", "lee", "pat"), enrolled={}, least=LEAST)
    for means, alike in (([kim, lee, pat], set()), ([*parts, lee], {0, 1})):
        talk = windows(np.stack(means)[np.repeat(np.arange(36) % 3, 10)])
        turns = find_turns(talk, 3)
        assert turns.is_distinct
        assert alike_voices(turns, talk) == alike
        owners, _, doubts = settle({"hand": {0: "kim", 2: "lee"}}, ("a", "b", "c"), by, alike)
        assert (owners.get(1), bool(doubts)) == (None if alike else "pat", bool(alike))


def tiny_resemblyzer(path: Path) -> Path:
    """Weights with Resemblyzer's names, of a network of 8 units."""
    import torch

    lstm, linear = torch.nn.LSTM(40, 8, 3, batch_first=True), torch.nn.Linear(8, 16)
    state = {f"lstm.{name}": value for name, value in lstm.state_dict().items()}
    state |= {f"linear.{name}": value for name, value in linear.state_dict().items()}
    torch.save({"model_state": state | {"similarity_bias": torch.zeros(1)}}, path)
    return path


def test_a_model_is_recognised_by_its_weights_and_what_is_not_known_is_refused(tmp_path: Path) -> None:
    import torch

    generator = np.random.default_rng(0)
    sounds = [generator.normal(0, 0.1, round(seconds * RATE)).astype(np.float32) for seconds in (1.6, 0.8, 2.5, 1.6)]
    for make, front_end in ((tiny_campplus, "3d-speaker"), (tiny_resemblyzer, "resemblyzer")):
        file = make(tmp_path / "tiny.pt")
        model = load_voice_model(tmp_path)
        assert (model.name, model.front_end) == ("tiny.pt", front_end)
        together = model.embed(sounds)
        np.testing.assert_allclose(together, [model.embed([sound])[0] for sound in sounds], atol=1e-5)
    with pytest.raises(VoiceModelError, match="'wespeaker'"):
        load_voice_model(file, "wespeaker")
    torch.save({"model_state": {"lstm.weight_hh_l0": torch.zeros(1, 1)}}, tmp_path / "other.pt")
    torch.save({"xvector.dense.linear.weight": torch.zeros(3, 8, 1)}, tmp_path / "part.pt")
    for name, wrong in (("other.pt", "other.pt"), ("part.pt", "part.pt"), (".", "exactly one"), ("no.pt", "no.pt")):
        with pytest.raises(VoiceModelError, match=wrong):
            load_voice_model(tmp_path / name)


def tiny_campplus(path: Path) -> Path:
    """Random weights with CAM++'s names: 2 and 4 channels, and one layer in each block."""
    import torch

    torch.manual_seed(0)
    state = {}

    def conv(name: str, *shape: int, norm: str = "", of: int = 0) -> None:
        state[f"{name}.weight"] = torch.randn(shape) / shape[1] ** 0.5
        if norm:
            state[f"{norm}.running_mean"] = torch.zeros(of or shape[0])
            state[f"{norm}.running_var"] = torch.ones(of or shape[0])

    conv("head.conv1", 2, 1, 3, 3, norm="head.bn1")
    for layer in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        for number in (1, 2):
            conv(f"head.{layer}.conv{number}", 2, 2, 3, 3, norm=f"head.{layer}.bn{number}")
        if layer.endswith("0"):
            conv(f"head.{layer}.shortcut.0", 2, 2, 1, 1, norm=f"head.{layer}.shortcut.1")
    conv("head.conv2", 2, 2, 3, 3, norm="head.bn2")
    conv("xvector.tdnn.linear", 4, 20, 5, norm="xvector.tdnn.nonlinear.batchnorm")
    for block in (1, 2, 3):
        name = f"xvector.block{block}.tdnnd1"
        conv(f"{name}.linear1", 4, 4, 1, norm=f"{name}.nonlinear1.batchnorm")
        conv(f"{name}.cam_layer.linear_local", 2, 4, 3, norm=f"{name}.nonlinear2.batchnorm", of=4)
        conv(f"{name}.cam_layer.linear1", 2, 4, 1)
        conv(f"{name}.cam_layer.linear2", 2, 2, 1)
        conv(f"xvector.transit{block}.linear", 4, 6, 1, norm=f"xvector.transit{block}.nonlinear.batchnorm", of=6)
    state |= {"xvector.out_nonlinear.batchnorm.running_mean": torch.zeros(4)}
    state |= {"xvector.out_nonlinear.batchnorm.running_var": torch.ones(4)}
    conv("xvector.dense.linear", 3, 8, 1, norm="xvector.dense.nonlinear.batchnorm")
    torch.save(state, path)
    return path


def separating_model(path: Path, sound: np.ndarray, border_s: float) -> Path:
    """Weights of Resemblyzer's kind, random but for the last layer, that tell what is before a time from the rest."""
    import torch

    torch.manual_seed(0)
    size = 32
    lstm = {
        f"lstm.{name}": 8 * value for name, value in torch.nn.LSTM(40, size, 3, batch_first=True).state_dict().items()
    }

    def save(rows: np.ndarray) -> None:
        linear = {"linear.weight": torch.tensor(rows, dtype=torch.float32), "linear.bias": torch.zeros(len(rows))}
        torch.save({"model_state": lstm | linear | {"similarity_bias": torch.zeros(1)}}, path)

    save(np.vstack([np.eye(size), -np.eye(size)]))
    embed = load_voice_model(path).embed
    heard = Windows.read(voiced_pieces([AudioBlock(0.0, sound)], 0.5), embed)
    hidden = heard.vectors[:, :size] - heard.vectors[:, size:]
    direction = np.linalg.lstsq(hidden, np.where(heard.start_s < border_s, 1, -1), rcond=1e-3)[0]
    save(np.stack([direction, -direction]))
    return path


@pytest.mark.needs("espeak-ng")
def test_a_meeting_of_one_microphone_has_a_speaking_of_each_person(tmp_path: Path, whisper: Path) -> None:
    def command(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        assert result.exit_code == 0, result.output
        return result

    words = [(word, 0.3 + 0.9 * number) for number, (word, _) in enumerate((2 * WORDS)[:6])]
    said = np.concatenate([planted(words, 6.0, voice) for voice in ("en-us", "en-us+f4")])
    root, store, path = tmp_path / "study", tmp_path / "store", tmp_path / "study/transcripts/s.json"
    root.mkdir()
    write_wave(root / "a.wav", as_int16(said), RATE)
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,a.wav\n")
    (root / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    (root / "tracks.csv").write_text("session_id,track,audio,person_id\ns,k,a.wav,kim\ns,l,a.wav,lee\n")
    (tmp_path / "c.toml").write_text("[speaking]\nvoices = true\n")
    extract = ("extract", root, store, "--features", "speaking", "--config", tmp_path / "c.toml", "--workers", 1)
    model = separating_model(tmp_path / "voices.pt", said, 6.0)
    enrolled = ("--voice", f"kim={root / 'a.wav'},0,6", "--voice", f"lee={root / 'a.wav'},6,12")
    command("transcribe", root, "--model", whisper, "--voices", model, *enrolled)
    turns = json.loads(path.read_text())["turns"]
    assert {(one["speaker"], one["person_id"], one["end_s"] <= 6.2) for one in turns} == {
        ("teller", "kim", True),
        ("lee", "lee", False),
    }
    command(*extract)
    speech = read_speech(FeatureStore(store), "s")
    assert list(speech) == ["k", "l"]
    for track, start_s in (("k", 0.0), ("l", 6.0)):
        time_s = speech[track].time_s
        assert not (speech[track].probability[(time_s < start_s) | (time_s > start_s + 6)] > 0.5).any()
        starts = np.array([start_s + at for _, at in words])
        assert {one.track for one in attribute(starts + 0.1, starts + 0.3, speech)} == {track}


@pytest.mark.needs("espeak-ng")
def test_the_seconds_of_a_voice_are_those_of_the_recording(tmp_path: Path) -> None:
    """The sound begins 3 s after the picture, and its first 6 s are silent."""
    sound = np.concatenate([np.zeros(6 * RATE, np.float32), np.tile(planted(WORDS, 8.0), 2)])
    path = write_recording(tmp_path / "v.mkv", 2, as_int16(sound)[:, None], RATE, sound_at_s=3.0)

    def embed(sounds: Sequence[np.ndarray]) -> np.ndarray:
        return np.ones((len(sounds), 1))

    with pytest.raises(VoiceError, match=r"has 0\.0 s of voice"):
        Enrolment.parse(f"kim={path},3,9").vector(embed, 0.5)
    assert Enrolment.parse(f"kim={path},9,25").vector(embed, 0.5).tolist() == [1.0]


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message of protobuf, by the numbers of its fields."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)

    content = b""
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        content += (
            varint(number << 3) + varint(data)
            if isinstance(data, int)
            else (varint(number << 3 | 2) + varint(len(data)) + data)
        )
    return content


def write_onnx(path: Path, shape: tuple[str | int, ...], **metadata: str) -> Path:
    """A network whose vector has the largest value of each band; of sound, that of all samples."""

    def value(name: str, sizes: tuple[str | int, ...]) -> bytes:
        dims = [(1, message((1 if isinstance(size, int) else 2, size))) for size in sizes]
        return message((1, name), (2, message((1, message((1, 1), (2, message(*dims)))))))

    axes, keep = message((1, "axes"), (8, 1), (20, 7)), message((1, "keepdims"), (3, int(len(shape) == 2)), (20, 2))
    node = message((1, "given"), (2, "vector"), (4, "ReduceMax"), (5, axes), (5, keep))
    graph = message((1, node), (2, "largest"), (11, value("given", shape)), (12, value("vector", ("batch", "size"))))
    entries = [(14, message((1, key), (2, text))) for key, text in metadata.items()]
    path.write_bytes(message((1, 8), (7, graph), (8, message((2, 13))), *entries))
    return path


@pytest.mark.parametrize(
    ("front_end", "scale", "window"), [("wespeaker", 32768, "hamming"), ("3d-speaker", 1, "povey")]
)
def test_a_network_of_bands_is_given_those_of_its_authors(
    tmp_path: Path, front_end: str, scale: float, window: str
) -> None:
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    model = load_voice_model(write_onnx(tmp_path / "it.onnx", ("batch", "frames", 80), framework=front_end))
    sounds = [np.random.default_rng(seconds).normal(0, 0.1, seconds * RATE).astype(np.float32) for seconds in (1, 2)]
    filters = mel_filter_bank(257, 80, 20, 8000, RATE, mel_scale="kaldi", triangularize_in_mel_space=True)
    for sound, vector in zip(sounds, model.embed(sounds), strict=True):
        bands = spectrogram(
            scale * sound.astype(np.float64),
            window_function(400, window, periodic=False),
            frame_length=400,
            hop_length=160,
            fft_length=512,
            power=2.0,
            center=False,
            preemphasis=0.97,
            mel_filters=filters,
            log_mel="log",
            mel_floor=np.finfo(np.float32).eps,
            remove_dc_offset=True,
        )
        largest = (bands - bands.mean(axis=1, keepdims=True)).max(axis=1)
        np.testing.assert_allclose(vector, largest / np.linalg.norm(largest), atol=1e-5)
    assert model.front_end == front_end


def test_a_network_whose_front_end_is_not_known_is_refused(tmp_path: Path) -> None:
    bands = write_onnx(tmp_path / "bands.onnx", ("batch", "frames", 80), framework="nemo")
    assert load_voice_model(bands, "3d-speaker").front_end == "3d-speaker"
    sound = write_onnx(tmp_path / "sound.onnx", ("batch", "samples"))
    assert load_voice_model(sound).embed([np.ones(RATE, np.float32)]).tolist() == [[1.0]]
    narrow = write_onnx(tmp_path / "narrow.onnx", ("batch", "frames", 40))
    for file, front_end in ((bands, None), (bands, "waveform"), (sound, "wespeaker"), (narrow, "wespeaker")):
        with pytest.raises(VoiceModelError, match=file.name):
            load_voice_model(file, front_end)


def test_a_network_that_cannot_compute_these_windows_is_refused(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    sounds = [generator.normal(0, 0.1, round(seconds * RATE)).astype(np.float32) for seconds in (1.6, 0.8, 1.6)]
    single = load_voice_model(write_onnx(tmp_path / "single.onnx", (1, "frames", 80), framework="wespeaker"))
    several = load_voice_model(write_onnx(tmp_path / "several.onnx", ("n", "frames", 80), framework="wespeaker"))
    np.testing.assert_allclose(single.embed(sounds), several.embed(sounds), atol=1e-6)
    short = load_voice_model(write_onnx(tmp_path / "short.onnx", ("n", 78, 80), framework="wespeaker"))
    with pytest.raises(VoiceModelError, match=r"short\.onnx"):
        short.embed(sounds)
    with pytest.raises(VoiceModelError, match=r"several\.onnx"):
        several.embed([np.full(RATE, np.nan, np.float32)])


@pytest.mark.needs("espeak-ng")
def test_a_transcript_gets_the_speakers_of_its_persons_and_says_by_what(tmp_path: Path) -> None:
    meeting = write_meeting(tmp_path / "study")
    model = tiny_resemblyzer(tmp_path / "tiny.pt")
    path = meeting / "transcripts/s.json"
    with pytest.raises(VoiceError, match=r"^s: .*printf 'session_id,person_id"):
        named(meeting, model)
    assert not path.exists()
    (meeting / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    outcome = named(meeting, model)
    assert (outcome.status, outcome.words, outcome.attributed) == (Status.MADE, 4, 4)
    content = json.loads(path.read_text())
    by = content["provenance"]["by_voice"]
    assert (by["model"]["name"], by["persons"], by["enrolled"], by["attributed"]) == ("tiny.pt", ["kim", "lee"], {}, 1)
    assert {one["speaker"] for one in content["utterances"]} <= {"speaker_1", "speaker_2"}
    assert path.stat().st_mode & 0o777 == 0o600
    words, before = read_transcript(path).words(), path.stat().st_mtime_ns
    assert (named(meeting, model).status, path.stat().st_mtime_ns) == (Status.CURRENT, before)
    path.write_text(json.dumps({name: value for name, value in content.items() if name != "turns"}))
    named(meeting, model)  # a transcript of before has turns when the command runs again
    assert json.loads(path.read_text()) == content
    for text, wrong in (
        (f"pat={meeting / 'a.wav'}", "pat"),
        ("kim=no.wav", "no.wav"),
        (f"kim={path},1,2", "kim"),
        ("kim", "kim"),
    ):
        with pytest.raises(VoiceError, match=wrong):
            named(meeting, model, text)
    long = write_wave(tmp_path / "long.wav", as_int16(np.tile(planted(WORDS, 8.0), 2)), RATE)
    with pytest.raises(VoiceError, match="kim, teller"):
        named(meeting, model, f"teller={long}", f"kim={long},0,9")
    named(meeting, model, f"teller={long},0,15.5")
    content = json.loads(path.read_text())
    assert {*content["provenance"]["by_voice"]["enrolled"]} == {"kim"}
    assert read_transcript(path).words() == words
    path.write_text(path.read_text().replace("velvet", "Velvet!"))
    assert named(meeting, model).status is Status.KEPT


@pytest.mark.needs("espeak-ng")
def test_a_voice_is_named_by_hand_once_it_is_known_which_it_is(tmp_path: Path) -> None:
    meeting, model = write_meeting(tmp_path / "study"), tiny_resemblyzer(tmp_path / "tiny.pt")
    (meeting / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    with pytest.raises(VoiceError, match="speaker_3.*: speaker_1, speaker_2$"):
        named(meeting, model, "kim=speaker_3")
    (doubt,) = named(meeting, model, "kim=speaker_2").doubts[-1:]
    assert "kim=speaker_2" in doubt
    path = meeting / "transcripts/s.json"

    def speakers() -> list[str]:
        return [one.speaker for one in read_transcript(path).utterances]

    before = speakers()
    named(meeting, model, "kim=speaker_2")
    assert speakers() == [{"speaker_1": "lee", "speaker_2": "teller", "": ""}[one] for one in before]
    by = json.loads(path.read_text())["provenance"]["by_voice"]
    assert (by["by_hand"], by["named"]) == ({"kim": 2}, {"kim": "hand", "lee": "left over"})
    other = tiny_resemblyzer(tmp_path / "other.pt")
    assert "kim=speaker_2" in named(meeting, other, "kim=speaker_2").doubts[-1]
    assert {*speakers()} <= {"speaker_1", "speaker_2", ""}
