from __future__ import annotations

import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tasks.sound import NoAudioError, read_audio


def write_wave(path: Path, samples: np.ndarray, rate: int) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1] if samples.ndim == 2 else 1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def whole_sound(path: Path, rate: int = 16_000) -> tuple[np.ndarray, float]:
    """The samples of all blocks, which must follow each other without a gap, and the time of the first."""
    blocks = list(read_audio(path, rate))
    before = 0
    for block in blocks:
        assert block.time == pytest.approx(blocks[0].time + before / rate, abs=1e-9)
        before += len(block.samples)
    return np.concatenate([block.samples for block in blocks]), blocks[0].time


def test_the_muxed_track(demo_study: Path) -> None:
    samples, start_s = whole_sound(demo_study / "videos/p01-s01.avi")
    assert samples.shape == (384_000,)
    assert samples.dtype == np.float32
    assert start_s == 0
    with av.open(str(demo_study / "videos/p01-s01.avi")) as container:
        raw = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
    np.testing.assert_array_equal(samples, raw / np.float32(32768))


def test_a_sidecar_is_resampled_and_mixed_to_one_channel(tmp_path: Path) -> None:
    time = np.arange(44_100 * 2) / 44_100
    tone = np.sin(2 * np.pi * 440 * time) * 10_000
    path = write_wave(tmp_path / "a.wav", np.stack([tone, tone], axis=1), 44_100)
    samples, _ = whole_sound(path)
    assert abs(len(samples) - 32_000) <= 2
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.fft.rfftfreq(len(samples), 1 / 16_000)[spectrum.argmax()] == pytest.approx(440, abs=1)


def test_sound_that_starts_late_says_when(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for block in range(10):
            frame = av.AudioFrame.from_ndarray(np.full((1, 1600), 1000, np.int16), format="s16", layout="mono")
            gap = 8000 if block >= 5 else 0  # half a second is missing in the middle
            frame.sample_rate, frame.pts, frame.time_base = 16_000, 4800 + 1600 * block + gap, Fraction(1, 16_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    samples, start_s = whole_sound(path)
    assert start_s == pytest.approx(0.3, abs=0.002)
    assert len(samples) == pytest.approx(24_000, abs=40)
    assert samples[8000:16000].max() < 0.001 < samples[:7900].min()


def test_no_sound_is_an_error_of_its_own(shared: Path) -> None:
    with pytest.raises(NoAudioError, match=r"black\.avi: has no audio track"):
        next(read_audio(shared / "data/openface/faults/black.avi", 16_000))
