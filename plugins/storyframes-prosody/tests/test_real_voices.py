"""Real voices: the pitch and the rates of speakers who are known to be low or high, as plain parselmouth has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parselmouth
import pytest
from parselmouth.praat import call
from planted_voices import RATE, place, transcript, write_study
from storyframes_prosody.extractor import COLUMNS
from support.studies import extract_session
from support.voices.human import english, prompts
from support.voices.scenes import voiced

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
