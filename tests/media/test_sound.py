from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.media.recordings import write_recording, write_streams, write_wave
from support.messages import naming

from tasks.media import sound
from tasks.media.container import RecordingError, StreamChoice
from tasks.media.sound import NoAudioError, mean_of_channels, read_audio


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


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("u8", [[192, 64, 128], [128, 128, 255]]),
        ("u8p", [[192, 64, 128], [128, 128, 255]]),
        ("s16", [[2**14, -(2**14), 0], [0, 0, 127 * 2**8]]),
        ("s16p", [[2**14, -(2**14), 0], [0, 0, 127 * 2**8]]),
        ("s32p", [[2**30, -(2**30), 0], [0, 0, 127 * 2**24]]),
        ("flt", [[0.5, -0.5, 0], [0, 0, 0.9921875]]),
        ("dblp", [[0.5, -0.5, 0], [0, 0, 0.9921875]]),
    ],
)
def test_the_mean_of_channels_is_the_same_in_every_sample_format(name: str, stored: list) -> None:
    planes = np.array(stored, {"u": np.uint8, "s": f"i{int(name[1:3]) // 8}" if name[0] == "s" else None,
                               "f": np.float32, "d": np.float64}[name[0]])  # fmt: skip
    packed = planes if name.endswith("p") else np.ascontiguousarray(planes.T).reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(packed, format=name, layout="stereo")
    np.testing.assert_allclose(mean_of_channels(frame), [0.25, -0.25, 0.9921875 / 2], atol=1e-6)


def test_a_hole_and_an_overlap_are_made_good_and_said(tmp_path: Path) -> None:
    """Timestamps that leave half a second out, and then go back by a fifth."""
    path = tmp_path / "a.mkv"
    starts = [0, 1600, 3200, 12_800, 14_400, 12_800, 14_400, 16_000]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for number, start in enumerate(starts):
            packet = av.Packet(np.full(1600, 1000 * (number + 1), "<i2").tobytes())
            packet.stream, packet.pts, packet.dts = stream, start, number * 1600
            packet.time_base = Fraction(1, 16_000)
            container.mux(packet)
    blocks = list(read_audio(path, 16_000))
    samples = np.concatenate([block.samples for block in blocks])
    assert sum(block.silence_s for block in blocks) == pytest.approx(0.5, abs=0.002)
    assert sum(block.dropped_s for block in blocks) == pytest.approx(0.2, abs=0.002)
    heard = np.rint(samples * 32_768 / 1000).astype(int)
    expected = np.repeat([1, 2, 3, 0, 4, 5, 8], [1600, 1600, 1600, 8000, 1600, 1600, 1600])
    assert np.mean(heard == expected) > 0.99


def test_a_sampling_rate_that_changes_is_an_error_not_a_change_of_pitch(tmp_path: Path) -> None:
    path = tmp_path / "a.ts"
    first, second = tmp_path / "1.ts", tmp_path / "2.ts"
    tone = (np.sin(np.arange(48_000) / 5) * 8000).astype(np.int16)[:, None]
    write_recording(first, 5, tone, 48_000, codec="mp2")
    write_recording(second, 5, tone, 32_000, codec="mp2")
    path.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(RecordingError, match=naming("a.ts", "sampling")):
        list(read_audio(path, 16_000))


@pytest.mark.parametrize(("zero_s", "expected"), [(0.0, 0.3), (0.5, -0.2), (None, 0.0)])
def test_times_are_of_the_recording_whose_second_0_is_told(
    tmp_path: Path, zero_s: float | None, expected: float
) -> None:
    path = tmp_path / "a.mkv"
    write_recording(path, 5, np.full((16_000, 1), 1000), sound_at_s=0.3)
    assert next(read_audio(path, 16_000, zero_s)).time == pytest.approx(expected, abs=1e-9)


def test_of_several_sounds_the_one_with_the_number_is_read(tmp_path: Path) -> None:
    """A file of one sound is read whatever the number."""
    loud, soft = np.full((4000, 1), 9000), np.full((4000, 1), 300)
    write_streams(tmp_path / "a.mkv", {"eng": loud, "fra": soft})
    for number, written in ((0, loud), (1, soft)):
        blocks = list(read_audio(tmp_path / "a.mkv", 16_000, streams=StreamChoice(sound=number)))
        heard = np.concatenate([block.samples for block in blocks]) * 32_768
        np.testing.assert_array_equal(heard, written[:, 0])
    with pytest.raises(RecordingError, match=naming("a.mkv", "sound_stream = 2", "0 to 1")):
        next(read_audio(tmp_path / "a.mkv", 16_000, streams=StreamChoice(sound=2)))
    write_streams(tmp_path / "a.mkv", {"eng": loud})
    assert next(read_audio(tmp_path / "a.mkv", 16_000, streams=StreamChoice(sound=2))).samples.max() > 0.2


def pieces(of: list[tuple[int, str]], rate: int, *, fails: bool) -> Iterator[sound._Piece]:
    """Pieces of so many samples each: plain ones, silence, and such as something was left out of."""
    noise, count = np.random.default_rng(0), 0
    for length, kind in of:
        samples = noise.uniform(-1, 1, 0 if kind == "nothing" else length).astype(np.float32)
        samples *= kind != "silence"
        silence_s, dropped_s = (length / rate * (kind == each) for each in ("silence", "dropped"))
        yield sound._Piece(3 + count / rate, rate, samples, silence_s, dropped_s)
        count += len(samples)
    if fails:
        raise RecordingError("it does not go on")


KINDS = st.sampled_from(["plain", "plain", "plain", "silence", "dropped", "nothing"])


@given(
    st.lists(st.tuples(st.integers(1, 6000), KINDS), min_size=1, max_size=30),
    st.sampled_from([(16_000, 16_000), (44_100, 16_000), (8000, 16_000), (48_000, 44_100)]),
    st.booleans(),
)
def test_sound_is_the_same_in_fewer_pieces(of: list[tuple[int, str]], rates: tuple[int, int], fails: bool) -> None:
    """The same samples to the bit, the same silence at the same samples, and no block much longer than before."""
    found = []
    for join in (sound._joined, lambda given: given):
        blocks: list[sound.AudioBlock] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sound, "_pieces", lambda *_: pieces(of, rates[0], fails=fails))
            patch.setattr(sound, "_joined", join)
            if fails:
                with pytest.raises(RecordingError, match="it does not go on"):
                    blocks.extend(read_audio(Path("a.wav"), rates[1], 1.0))
            else:
                blocks.extend(read_audio(Path("a.wav"), rates[1], 1.0))
        found.append(blocks)
    joined, apart = found
    if fails:
        return
    np.testing.assert_array_equal(*(np.concatenate([block.samples for block in blocks]) for blocks in found))
    assert joined[0].time == apart[0].time == 2
    for name in ("silence_s", "dropped_s"):
        totals, wherever = zip(*(counted(blocks, name) for blocks in found), strict=True)
        assert totals[0] == totals[1]
        assert wherever[0] == wherever[1]
    most = max(6000, (sound._BLOCK_S * rates[0]) + 6000) * rates[1] / rates[0]
    assert all(len(block.samples) < most + 1000 for block in joined)


def counted(blocks: list[sound.AudioBlock], name: str) -> tuple[float, list[tuple[float, float]]]:
    """The total, and the blocks that have it: when, and how much."""
    noted = [(block.time, value) for block in blocks if (value := getattr(block, name))]
    return sum(value for _, value in noted), noted
