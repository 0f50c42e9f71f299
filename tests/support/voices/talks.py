"""Conversations composed of recorded voices, with the sound of each microphone and who speaks in each 0.1 s.

A seed decides who speaks when. A :class:`Room` is what the microphones make of it: how they hear the other persons, the
noise, the echo, a telephone's band, and automatic gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import signal

from support.media.conversations import RATE, Conversation, add_bangs, fill_pauses, plant_mouth
from support.voices.human import prompts
from support.voices.scenes import as_loud, voiced

_STEP = RATE // 10
_LEVEL_DB = -26.0
_BELOW_DB = 20.0  # below the level of the voice: softer steps are no speech
_BACKCHANNEL_S = 1.0


@dataclass(frozen=True)
class Room:
    """What microphones hear.

    Attributes:
        crosstalk_db: how loud a microphone hears the others, compared with its own person.
        snr_db: of speech over the noise.
        echo_s: the time in which the echo falls by 60 dB.
        echo_db: the power of the echo, compared with the direct sound.
        is_telephone: only 300 to 3400 Hz.
        has_gain: the microphones have automatic gain.
    """

    crosstalk_db: float = -12.0
    snr_db: float = 20.0
    echo_s: float = 0.3
    echo_db: float = -12.0
    is_telephone: bool = False
    has_gain: bool = False


ROOMS = {
    "studio": Room(crosstalk_db=-18, snr_db=30, echo_s=0.1),
    "office": Room(crosstalk_db=-13, snr_db=22, echo_s=0.35),
    "hall": Room(crosstalk_db=-10, snr_db=25, echo_s=0.7, echo_db=-9),
    "noisy": Room(crosstalk_db=-13, snr_db=13, echo_s=0.3),
    "telephone": Room(crosstalk_db=-20, snr_db=22, echo_s=0.2, is_telephone=True),
}
"""The rooms of the benchmark."""

STYLES = {
    "talk": (0.5, 0.7),
    "slow": (4.0, 0.7),
    "nonstop": (0.0, 0.7),
    "lecture": (0.5, 0.1),
    "monologue": (0.0, 0.0),
    "silence": (0.0, 0.0),
}
"""By kind of conversation the mean pause between utterances, seconds, and how often another person goes on.

In "nonstop" there are no pauses within utterances either. In a lecture the first person goes on after each answer. In a
monologue only the first person speaks, 95 % of the time. In "silence" nobody does.
"""


@cache
def utterances(voice: str) -> tuple[np.ndarray, ...]:
    """What a voice of :data:`support.voices.human.VOICES` says, cut to the voice and equally loud, at 8 kHz."""
    cut = [voiced(prompt.samples) for prompt in prompts(voice, 0.3, 9.0) if "beep" not in prompt.text]
    loud = [as_loud(sound, _LEVEL_DB) for sound in cut if len(sound)]
    return tuple(signal.resample_poly(sound, 1, 2).astype(np.float32) for sound in loud)


def compose_talk(
    seed: int, voices: Sequence[str], room: Room, *, style: str = "talk", seconds: float = 60.0
) -> Conversation:
    """A conversation of these voices, in a style of :data:`STYLES`."""
    generator = np.random.default_rng(seed)
    persons, count = len(voices), round(seconds * RATE)
    tracks = np.zeros((persons, count), np.float32)
    lines = [[*generator.permutation(np.array(utterances(voice), object))] for voice in voices]

    def say(person: int, at: float, longest_s: float = np.inf) -> float:
        """Plant the first utterance that is at most as long; its end."""
        number = next((number for number, line in enumerate(lines[person]) if len(line) < longest_s * RATE), 0)
        sound = lines[person].pop(number)
        lines[person].append(sound)
        if style == "nonstop":
            sound = sound[: len(sound) // _STEP * _STEP].reshape(-1, _STEP)[_is_loud(sound)].ravel()
        first = round(at * RATE)
        piece = (sound * 10 ** (generator.normal(0, 2) / 20))[: max(count - first, 0)]
        tracks[person, first : first + len(piece)] += piece
        return at + len(sound) / RATE

    pause_s, changes = STYLES[style]
    has_leader = changes < 0.5
    at, person = generator.uniform(0.3, 1.0), 0 if has_leader else int(generator.integers(persons))
    while at < seconds - 0.5 and style != "silence":
        start, end = at, say(person, at)
        others = [other for other in range(persons) if other != person]
        at = end + (generator.exponential(pause_s) if pause_s else 0.0)
        if style == "monologue":
            at = end + (end - start) / 19
        elif others:
            if end - start > 2 and generator.random() < 0.25:
                say(int(generator.choice(others)), generator.uniform(start + 0.5, end - 0.5), _BACKCHANNEL_S)
            if has_leader and person != 0:
                person = 0
            elif generator.random() < changes:
                person = int(generator.choice(others))
                at = end - min(generator.uniform(0.2, 1.2), (end - start) / 2) if generator.random() < 0.25 else at
    bangs = add_bangs(generator, count)
    heard = [_heard(generator, tracks, own, room, bangs) for own in range(persons)]
    in_the_middle = _heard(generator, tracks, None, room, bangs)
    mouths = [plant_mouth(generator, track) for track in tracks]
    speaks, loudness = np.stack([truth(track) for track in tracks]), np.sqrt([_power(track) for track in tracks])
    return Conversation(heard, in_the_middle, mouths, speaks, loudness)


def truth(track: np.ndarray) -> np.ndarray:
    """(steps,) bool: whether the voice is heard, pauses of up to 0.3 s included."""
    return fill_pauses(_is_loud(track))


def _is_loud(sound: np.ndarray) -> np.ndarray:
    """(steps,) bool: whether a voice is at most 20 dB softer than usual in each 0.1 s."""
    return _power(sound) > 10 ** ((_LEVEL_DB - _BELOW_DB) / 10)


def _power(sound: np.ndarray) -> np.ndarray:
    """(steps,) the mean power of each 0.1 s."""
    steps = sound[: len(sound) // _STEP * _STEP].reshape(-1, _STEP).astype(np.float64)
    return np.asarray(np.mean(steps**2, axis=1))


def _heard(
    generator: np.random.Generator, tracks: np.ndarray, own: int | None, room: Room, bangs: np.ndarray
) -> np.ndarray:
    """What a microphone records of whose owner is this person, or of nobody in the middle of all."""
    sound = np.zeros(tracks.shape[1], np.float32)
    for person, track in enumerate(tracks):
        if own is None:
            sound += track * 10 ** (generator.uniform(-4, 4) / 20)
        elif person == own:
            sound += track
        else:
            late = np.roll(track, int(generator.integers(8, 60)))
            sound += late * 10 ** ((room.crosstalk_db + generator.normal(0, 1.5)) / 20)
    time = np.arange(round(room.echo_s * RATE)) / RATE
    tail = generator.standard_normal(len(time)) * 10 ** (-3 * time / room.echo_s)
    sound += signal.fftconvolve(sound, tail * 10 ** (room.echo_db / 20) / np.linalg.norm(tail))[: len(sound)]
    spectrum = np.fft.rfft(generator.standard_normal(len(sound)))
    spectrum *= (1 + np.arange(len(spectrum)) / len(spectrum) * 20) ** -generator.uniform(0, 1)  # white to pink
    noise = np.fft.irfft(spectrum, len(sound))
    sound = sound + bangs + noise / noise.std() * 10 ** ((_LEVEL_DB - room.snr_db + generator.normal(0, 1.5)) / 20)
    if room.is_telephone:
        sound = signal.sosfilt(signal.butter(4, (300, 3400), "bandpass", fs=RATE, output="sos"), sound)
    if room.has_gain:
        sound = automatic_gain(sound)
    return np.clip(sound * 10 ** (generator.uniform(-12, 6) / 20), -1, 1).astype(np.float32)


def automatic_gain(
    sound: np.ndarray, *, most_db: float = 24.0, attack_s: float = 0.05, release_s: float = 1.5
) -> np.ndarray:
    """The sound as loud everywhere as a recorder's automatic gain makes it."""
    hop = RATE // 100
    level = np.sqrt(np.mean(sound[: len(sound) // hop * hop].reshape(-1, hop) ** 2, axis=1))
    followed = np.empty(len(level))
    last = float(level[0])
    for number, now in enumerate(level):
        seconds = attack_s if now > last else release_s
        last += (now - last) * (1 - np.exp(-0.01 / seconds))
        followed[number] = last
    gain_db = np.minimum(_LEVEL_DB - 20 * np.log10(np.maximum(followed, 1e-6)), most_db)
    gain = 10 ** (np.interp(np.arange(len(sound)) / hop, np.arange(len(level)), gain_db) / 20)
    return sound * gain
