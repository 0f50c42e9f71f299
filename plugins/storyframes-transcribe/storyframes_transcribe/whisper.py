"""Words from stretches of voice, by Whisper (faster-whisper, CTranslate2). Offline: only a local folder is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from storyframes_transcribe.languages import LanguageError
from storyframes_transcribe.models import Model, ModelError
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.voices import RATE, Piece
from storyframes_transcribe.words import Heard, HeardWord

LIBRARIES = ("faster-whisper", "ctranslate2", "onnxruntime", "tokenizers")


def library_versions() -> dict[str, str]:
    """The versions of what decides the words besides the model."""
    return {name: version(name) for name in LIBRARIES}


class Whisper:
    """A model that is loaded once for all recordings."""

    def __init__(self, model: Model, settings: TranscribeSettings) -> None:
        """Load it.

        Raises:
            ModelError: it cannot be loaded.
        """
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        try:
            loaded = WhisperModel(
                str(model.folder),
                device=settings.device.value,
                compute_type=settings.device.compute_type,
                cpu_threads=settings.cpus or len(os.sched_getaffinity(0)),
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelError(f"{model.folder}: cannot be loaded on {settings.device}: {error}") from None
        self._model, self._pipeline, self._settings = loaded, BatchedInferencePipeline(loaded), settings

    def listen(self, samples: np.ndarray) -> dict[str, float]:
        """The probability of each language, by its code, in at most 30 s of voice."""
        if not self._model.model.is_multilingual:
            return {"en": 1.0}
        return dict(self._model.detect_language(audio=samples)[2])

    def hear(self, piece: Piece, language: str | None) -> Heard:
        """The words of a piece that has at least one stretch of voice.

        Args:
            language: a code; None detects it.

        Raises:
            LanguageError: the model does not know it.
        """
        if language and language not in self._model.supported_languages:
            raise LanguageError(
                f"the model does not know the language {language}: give another model, or correct it in the column "
                "language of the tables or in --language"
            )
        segments, info = self._pipeline.transcribe(
            piece.samples,
            language=language,
            beam_size=self._settings.beam_size,
            batch_size=self._settings.batch_size,
            word_timestamps=True,
            vad_filter=False,
            clip_timestamps=[{"start": first / RATE, "end": stop / RATE} for first, stop in piece.stretches],
        )
        words = tuple(_words(segments, piece))
        return Heard(words, str(info.language), float(info.language_probability))


def _words(segments: object, piece: Piece) -> Iterator[HeardWord]:
    for segment in segments:  # type: ignore[attr-defined]  # an iterator, untyped
        for word in segment.words or ():
            start_s, end_s = piece.start_s + float(word.start), piece.start_s + max(float(word.end), float(word.start))
            if text := word.word.strip():
                yield HeardWord(text, start_s, end_s, float(word.probability))
