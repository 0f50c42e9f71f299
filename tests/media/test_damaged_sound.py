"""Sound with damaged packets: silence takes their place, they are counted, and what follows stays in time."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from support.media.recordings import with_damaged_sound, write_recording
from support.messages import naming

from tasks.media.container import RecordingError
from tasks.media.sound import find_clipped, read_audio, sound_s

RATE = 16_000


def noise(seconds: float) -> np.ndarray:
    """(n, 1) int16, in which nothing is silent."""
    values = np.random.default_rng(0).integers(2000, 20_000, (round(seconds * RATE), 1))
    return values.astype(np.int16)


def samples_of(path: Path) -> np.ndarray:
    return np.concatenate([block.samples for block in read_audio(path, RATE)])


@pytest.mark.parametrize("numbers", [[2], [0], [1, 2], [0, 3]])
def test_the_place_of_damaged_packets_is_silent_and_the_rest_as_it_was(tmp_path: Path, numbers: list[int]) -> None:
    whole, path = tmp_path / "whole.mp4", tmp_path / "a.mp4"
    write_recording(whole, 40, noise(1.6), codec="flac")
    lengths = with_damaged_sound(whole, path, numbers)
    edges = np.cumsum((0, *lengths))
    expected = samples_of(whole)
    for number in numbers:
        expected[edges[number] : edges[number + 1]] = 0
    blocks = list(read_audio(path, RATE))
    np.testing.assert_array_equal(np.concatenate([block.samples for block in blocks]), expected)
    assert sum(block.damaged for block in blocks) == len(numbers)
    assert sum(block.silence_s for block in blocks) == pytest.approx(sum(lengths[n] for n in numbers) / RATE)


def test_many_short_holes_do_not_shift_what_follows(tmp_path: Path) -> None:
    """Each is shorter than a gap that counts by itself."""
    whole, path = tmp_path / "whole.mp4", tmp_path / "a.mp4"
    write_recording(whole, 40, noise(1.6), codec="aac")
    with_damaged_sound(whole, path, range(3, 20, 4))
    assert sound_s(path) == pytest.approx(sound_s(whole), abs=0.001)
    before, after = samples_of(whole), samples_of(path)
    np.testing.assert_allclose(after[-1024:], before[-1024:], atol=1e-6)


def test_a_damaged_last_packet_is_counted(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.mp4", tmp_path / "a.mp4"
    write_recording(whole, 40, noise(1.6), codec="flac")
    lengths = with_damaged_sound(whole, path, ())
    with_damaged_sound(whole, path, [len(lengths) - 1])
    blocks = list(read_audio(path, RATE))
    assert sum(block.damaged for block in blocks) == 1
    assert sum(len(block.samples) for block in blocks) == sum(lengths[:-1])


def test_sound_of_which_most_is_damaged_is_refused(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.mp4", tmp_path / "a.mp4"
    write_recording(whole, 40, noise(1.6), codec="flac")
    lengths = with_damaged_sound(whole, path, ())
    with_damaged_sound(whole, path, range(1, len(lengths)))
    with pytest.raises(RecordingError, match=naming("a.mp4", f"{len(lengths) - 1} of its {len(lengths)} packets")):
        list(read_audio(path, RATE))


def test_two_joined_mp3s_are_one_sound(tmp_path: Path) -> None:
    """The tags at the beginning of the second are packets that do not decode."""
    path = tmp_path / "a.mp3"
    for name, frequency in (("1.mp3", 0.05), ("2.mp3", 0.5)):
        with av.open(str(tmp_path / name), "w") as container:
            stream = container.add_stream("libmp3lame", rate=RATE, layout="mono")
            tone = (np.sin(np.arange(3 * RATE) * frequency) * 9000).astype(np.int16)
            for first in range(0, len(tone), 1152):
                block = av.AudioFrame.from_ndarray(tone[None, first : first + 1152], format="s16p", layout="mono")
                block.sample_rate, block.pts = RATE, first
                container.mux(stream.encode(block))
            container.mux(stream.encode(None))
    first, second = (tmp_path / name for name in ("1.mp3", "2.mp3"))
    tag = b"ID3\x04\x00\x00" + bytes([0, 0, 20, 0]) + b"\xff\xfb" * 1280
    path.write_bytes(first.read_bytes() + tag + second.read_bytes())
    blocks = list(read_audio(path, RATE))
    samples = np.concatenate([block.samples for block in blocks])
    assert len(samples) / RATE == pytest.approx(6.1, abs=0.3)
    assert sum(block.damaged for block in blocks) > 0
    crossings = [np.mean(np.diff(np.signbit(part))) for part in (samples[8000:40_000], samples[-40_000:-8000])]
    assert crossings == pytest.approx([0.05 / np.pi, 0.5 / np.pi], rel=0.05)
    assert all(3 < start < stop < 3.3 for start, stop in find_clipped(path))  # what the decoder makes of the tag
