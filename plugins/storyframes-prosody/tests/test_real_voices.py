"""Real voices: the pitch and the rates of speakers who are known to be low or high, as plain parselmouth has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parselmouth
import pytest
from parselmouth.praat import call
from planted_voices import RATE, place, transcript, write_study
from storyframes_prosody.extractor import COLUMNS, Reason
from storyframes_prosody.praat import as_sound, own_range, semitones, timing_of, voice_of, voiced_hz
from support.media.conversations import RATE as TALK_RATE
from support.media.recordings import write_wave
from support.studies import extract_session, run
from support.voices.human import VOICES, english, prompts
from support.voices.scenes import as_loud, voiced
from support.voices.talks import ROOMS, compose_talk

from storyframes import FeatureStore
from storyframes.store import create_store
from tasks.planning.selection import Selection

pytestmark = [pytest.mark.needs("parselmouth", "real voices"), pytest.mark.slow, pytest.mark.nightly]


def test_a_man_and_a_woman_speak_at_their_pitch_and_rate(tmp_path: Path) -> None:
    man = [(spoken.text, voiced(spoken.samples)) for spoken in english()[:5]]
    woman = [("x", voiced(spoken.samples)) for spoken in prompts("en")[:5]]
    at, planted, said = 0.5, [], []
    for pair in zip(man, woman, strict=True):
        for speaker, (text, samples) in zip("AB", pair, strict=True):
            planted.append((at, samples))
            said.append((speaker, at, at + len(samples) / RATE, text))
            at = round(at + len(samples) / RATE + 0.5, 2)
    sound = place(planted, at + 1)
    study = write_study(tmp_path / "study", sound, transcript(*said))
    store, outcomes = extract_session(study, tmp_path / "store", "prosody")
    assert str(outcomes["prosody"].status) == "done", outcomes
    values = dict(zip(COLUMNS, store.read("s", "prosody").T, strict=True))
    assert store.read("s", "prosody", array="reason").tolist() == [0] * 10
    assert ((values["f0_median_hz"][::2] > 80) & (values["f0_median_hz"][::2] < 110)).all()
    assert ((values["f0_median_hz"][1::2] > 160) & (values["f0_median_hz"][1::2] < 230)).all()
    assert np.median(values["syllables_per_s"][::2]) == pytest.approx(4.4, abs=0.6)
    assert np.abs(values["f0_relative_st"]).max() < 4
    whole = parselmouth.Sound(str(study / "s.wav"))
    for row, (_, start, end, _) in enumerate(said):
        plain = call(whole.extract_part(start, end).to_pitch(), "Get quantile", 0, 0, 0.5, "Hertz")
        assert values["f0_median_hz"][row] == pytest.approx(plain, rel=0.1)  # of 75 to 600 Hz, Praat's usual range


SYLLABLES = (30, 9, 20, 26, 13, 3, 4, 4, 2, 10, 6, 7)
"""Of :func:`english`."""
OF_PROMPTS = {
    "agent alreadyon": 23, "agent pass": 12, "all circuits busy now": 7, "call fwd no ans": 7, "call fwd on busy": 6,
    "cannot complete as dialed": 11, "check number dial again": 10, "conf enteringno": 10, "conf extended": 9,
    "conf hasjoin": 7, "conf kicked": 9, "conf leaderhasleft": 9, "conf lockednow": 7, "conf noempty": 12,
    "conf now recording": 11, "conf onlyperson": 15, "conf placeintoconf": 11, "conf unlockednow": 8,
    "conf userswilljoin": 8, "conf waitforleader": 13, "confbridge has left": 6, "confbridge invalid": 10,
    "confbridge lock out": 9, "confbridge mute extended": 46,
}  # fmt: skip
"""What is said in these prompts was heard and counted by hand, "conference" as three syllables."""


def counted(samples: np.ndarray) -> int:
    sound = as_sound(samples)
    return round(timing_of(sound)["syllables_per_s"] * sound.get_total_duration())


def test_syllables_of_sentences_that_were_counted_by_hand() -> None:
    spoken = [*zip(english(), SYLLABLES, strict=True)]
    spoken += [(prompt, OF_PROMPTS[prompt.text]) for prompt in prompts("en") if prompt.text in OF_PROMPTS]
    found = np.array([(counted(sentence.samples), number) for sentence, number in spoken])
    assert found.sum(axis=0).tolist() == [pytest.approx(386, abs=10), 410]
    assert np.mean(np.abs(found[:, 0] / found[:, 1] - 1)) == pytest.approx(0.11, abs=0.02)


def test_what_the_wide_range_and_softer_others_change() -> None:
    cut = {voice: [voiced(prompt.samples) for prompt in prompts(voice)] for voice in VOICES}
    cut = {voice: [as_loud(sound) for sound in sounds if len(sound) > RATE][:30] for voice, sounds in cut.items()}
    ranges, strays = {}, []
    for voice, sounds in cut.items():
        wide = [voiced_hz(as_sound(sound), 60, 700) for sound in sounds]
        ranges[voice] = own_range(wide, 60, 700)
        median = np.median(np.concatenate([voiced_hz(as_sound(sound), *ranges[voice]) for sound in sounds]))
        strays.append(np.mean(np.abs(semitones(np.concatenate(wide), median)) > 11))
    assert (min(strays), max(strays)) == pytest.approx((0.006, 0.038), abs=0.004)
    changes = []
    for voice, other in zip(VOICES, [*VOICES][1:], strict=False):
        for sound, softer in zip(cut[voice][:10], cut[other], strict=False):
            heard = sound + 10 ** (-12 / 20) * np.resize(softer, len(sound))
            alone, both = (voice_of(as_sound(part), *ranges[voice], 0.1)[0] for part in (sound, heard))
            pitch = semitones(both["f0_median_hz"], alone["f0_median_hz"])
            changes.append((abs(pitch), abs(both["hnr_db"] - alone["hnr_db"])))
    assert np.median(changes, axis=0).tolist() == [pytest.approx(0.3, abs=0.1), pytest.approx(3.2, abs=0.5)]


def test_how_many_utterances_with_others_speech_speaking_marks(tmp_path: Path) -> None:
    rows: dict[str, list[str]] = {"sessions": [], "tracks": [], "persons": []}
    others_s: dict[tuple[str, str], list[float]] = {}
    for seed in range(100, 110):
        name = f"s{seed}"
        voices = np.random.default_rng(seed).choice([*VOICES], 2 + seed % 2, replace=False).tolist()
        talk = compose_talk(seed, voices, [*ROOMS.values()][seed % len(ROOMS)])
        for person, (sound, speaks) in enumerate(zip(talk.microphones, talk.speaks, strict=True)):
            edges = np.diff(np.concatenate([[0], speaks.astype(int), [0]]))
            steps = [*zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True)]
            write_wave(tmp_path / f"{name}-{person}.wav", sound * 32767, TALK_RATE)
            said = transcript(*(("", first / 10, stop / 10, "x") for first, stop in steps))
            (tmp_path / f"{name}-{person}.json").write_text(said)
            rows["tracks"].append(f"{name},t{person},{name}-{person}.wav,{name}-{person}.json,q{person}")
            rows["persons"].append(f"{name},q{person}")
            others = np.delete(talk.speaks, person, axis=0).any(axis=0)
            others_s[name, f"prosody@t{person}"] = [others[first:stop].sum() / 10 for first, stop in steps]
        rows["sessions"].append(f"{name},p{seed},{name}-0.json")
    heads = {"sessions": "participant_id,transcript", "tracks": "track,audio,transcript,person_id"}
    for table, lines in rows.items():
        head = f"session_id,{heads.get(table, 'person_id')}"
        (tmp_path / f"{table}.csv").write_text("\n".join([head, *lines]) + "\n")
    create_store(tmp_path / "store")
    for feature in ("speaking", "prosody"):
        run(tmp_path, tmp_path / "store", Selection(only=(feature,)), prosody={"speaking": True})
    store = FeatureStore(tmp_path / "store")
    marked: dict[bool, list[bool]] = {True: [], False: []}
    for (name, feature), seconds in others_s.items():
        for reason, other_s in zip(store.read(name, feature, array="reason"), seconds, strict=True):
            if not reason & Reason.SHORT and (other_s == 0 or other_s >= 0.5):
                marked[other_s > 0].append(bool(reason & Reason.CROSSTALK))
    assert min(map(len, marked.values())) >= 75
    assert np.mean(marked[True]) == pytest.approx(0.95, abs=0.03)
    assert np.mean(marked[False]) == pytest.approx(0.06, abs=0.03)
