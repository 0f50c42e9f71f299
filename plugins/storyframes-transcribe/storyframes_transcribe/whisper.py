"""Words from stretches of voice, by Whisper (faster-whisper, CTranslate2). Offline: only a local folder is read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from faster_whisper.transcribe import Segment
from faster_whisper.vad import SpeechTimestampsMap

from storyframes_transcribe.languages import LanguageError
from storyframes_transcribe.models import Model, ModelError
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.voices import RATE, Piece, pack
from storyframes_transcribe.words import Heard, HeardWord, join_pieces

LIBRARIES = ("faster-whisper", "ctranslate2", "onnxruntime", "tokenizers")


def library_versions() -> dict[str, str]:
    """The versions of what decides the words besides the model."""
    divides = ["budoux"] if find_spec("budoux") else []
    return {name: version(name) for name in (*LIBRARIES, *divides)}


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
        """The words of a piece that has at least one stretch of voice, with Whisper's own times.

        The model reads as much voice at once as it can, without the silence between stretches.

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
        packs = pack(piece.stretches)
        clips = [clip for clips in packs for clip in clips]
        edges = np.cumsum([0] + [sum(stop - first for first, stop in clips) for clips in packs]) / RATE
        self._pipeline.last_speech_timestamp = 0.0  # which it keeps from the recording before
        segments, info = self._pipeline.transcribe(
            np.concatenate([piece.samples[first:stop] for first, stop in clips]),
            language=language,
            beam_size=self._settings.beam_size,
            batch_size=self._settings.batch_size,
            word_timestamps=True,
            vad_filter=False,
            clip_timestamps=[{"start": start, "end": end} for start, end in itertools.pairwise(edges.tolist())],
        )
        in_piece = SpeechTimestampsMap([{"start": first, "end": stop} for first, stop in clips], RATE, 3)
        words = tuple(words_of(segments, str(info.language), in_piece, piece.start_s))
        return Heard(words, str(info.language), float(info.language_probability))


def words_of(
    segments: Iterable[Segment], language: str, in_piece: SpeechTimestampsMap, start_s: float
) -> Iterator[HeardWord]:
    """The words of segments of a piece that begins at ``start_s``."""
    for segment in segments:
        pieces = [
            HeardWord(word.word, word.start, max(word.end, word.start), float(word.probability))
            for word in segment.words or ()
        ]
        for word in join_pieces(pieces, language):
            clip = in_piece.get_chunk_index((word.start_s + word.end_s) / 2)
            start, end = (start_s + in_piece.get_original_time(at, clip) for at in (word.start_s, word.end_s))
            yield replace(word, start_s=start, end_s=end)
