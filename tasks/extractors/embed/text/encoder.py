"""Embedding texts whole, by a model of sentences or by any encoder with a pool of ours. Imports torch."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.extractor import layer_numbers
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.text.settings import TextPool, TextSettings
from tasks.extractors.embed.text.shape import TextShape
from tasks.extractors.image_networks.settings import Device, Precision
from tasks.extractors.text_chunks import Chunk, chunks, embed_in_chunks
from tasks.models.libraries import import_torchvision
from tasks.models.one_thread import one_thread

_BATCH = 32
_USUAL_PIECES = 512  # where neither the model nor its tokenizer says how much it reads
_UNLIMITED = 10**6  # tokenizers say 1e30 where they do not know
_MOST_ROUNDING = 1e-3  # of a vector's length: by more, padding beside a text has changed it
_MOST_ROUNDING_OF_HALVES = 2e-2
_UNUSED = ("pooler.", "decoder.", "position_ids")  # of a network: hidden states are taken before, or elsewhere


class TextEncoder(ABC):
    """A loaded model of texts.

    Attributes:
        tokenizer: transformers' fast tokenizer.
        limit: word pieces that it reads at once, with its marks.
        prompt: put before every text.
    """

    def __init__(self, settings: TextSettings, tokenizer: Any, limit: int, unit_length: bool) -> None:
        where = f"[[embed]] {settings.name}"
        if not getattr(tokenizer, "is_fast", False):
            raise ExtractionError(f"{where}: {settings.source} has no fast tokenizer, by which long texts are divided")
        if settings.max_pieces and settings.max_pieces > limit:
            raise ExtractionError(f"{where}: max_pieces = {settings.max_pieces}, but {settings.source} reads {limit}")
        self.settings = settings
        self.tokenizer = tokenizer
        self.limit = settings.max_pieces or limit
        self.prompt = settings.prompt
        self._unit_length = unit_length

    @abstractmethod
    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Texts that the model reads whole, the shorter ones padded: (n, width) float32."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Texts that the model reads whole: (n, width) float32.

        Of a model that padding would change, only texts of one length go through it together.
        """
        lengths = np.array([self._length(text) for text in texts])
        if len(set(lengths.tolist())) < 2 or not self._padding_shows:
            return self._embed(texts)
        alike = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        rows = np.concatenate([self._embed([texts[number] for number in some.tolist()]) for some in alike])
        return rows[np.argsort(np.concatenate(alike))]

    @cached_property
    def _padding_shows(self) -> bool:
        """Whether a text has another vector beside a longer one than by itself.

        So it is where the tokenizer pads on the left and the model counts positions from there, and where convolutions
        see what attention is told to leave out.
        """
        short = longer = "a"
        while self._length(f"{longer} a") <= min(self.limit, 2 * _BATCH):
            longer = f"{longer} a"
        (alone,), (beside, _) = self._embed([short]), self._embed([short, longer])
        halves = self.settings.precision is not Precision.FLOAT32
        most = _MOST_ROUNDING_OF_HALVES if halves else _MOST_ROUNDING
        return bool(np.linalg.norm(beside - alone) > most * np.linalg.norm(alone))

    def embed_whole(self, texts: Sequence[str], unit: str) -> tuple[np.ndarray, list[int]]:
        """The whole texts' embeddings, (n, width) float32, and of how many parts each was put together.

        Raises:
            ExtractionError: the model gives what is no number; ``unit`` says of what, its text is not told.
        """
        parts = [self._parts(text) for text in texts]
        values = embed_in_chunks(parts, self.embed, unit_length=self._unit_length)
        broken = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(broken):
            raise ExtractionError(
                f"[[embed]] {self.settings.name}: the model gives NaN or infinity for {unit} {broken[0] + 1} "
                f"(and {len(broken) - 1} others of {len(values)}): try precision = 'float32'"
            )
        return values, [len(part) for part in parts]

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of each text's word pieces, with the marks around them."""
        return self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []

    def _parts(self, text: str) -> list[Chunk]:
        """The text in parts that the model reads whole, each with the prompt and the marks."""
        most = self.limit - (self._length("") if self.prompt else self.tokenizer.num_special_tokens_to_add())
        while most > 0:
            found = chunks(text, self.tokenizer, most)
            # By itself, a part may have more pieces than it had in the text: a space before it made a difference.
            longest = max(self._length(chunk.text) for chunk in found)
            if longest <= self.limit:
                return found
            most -= longest - self.limit
        raise ExtractionError(f"[[embed]] {self.settings.name}: the prompt leaves no room for texts")

    def _length(self, text: str) -> int:
        return len(self.tokenizer(self.prompt + text, verbose=False)["input_ids"])


class _SentenceEncoder(TextEncoder):
    """A model of sentences, with a pooling of its own."""

    def __init__(self, model: Any, settings: TextSettings, shape: TextShape) -> None:
        super().__init__(settings, model.tokenizer, model.max_seq_length or sys.maxsize, shape.unit_length)
        if settings.max_pieces:
            model.max_seq_length = settings.max_pieces
        self.prompt = settings.prompt or model.prompts.get(model.default_prompt_name or "", "")
        self._model = model
        self._width = shape.width

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, self._width), np.float32)
        with one_thread():
            found = self._model.encode(
                list(texts),
                prompt=self.prompt or None,
                batch_size=self.settings.batch_size or _BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return found.astype(np.float32)


class _PooledEncoder(TextEncoder):
    """Any encoder; its word pieces' vectors are pooled here."""

    def __init__(self, model: Any, tokenizer: Any, settings: TextSettings, shape: TextShape) -> None:
        super().__init__(settings, tokenizer, _limit(model, tokenizer), unit_length=False)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._model = model
        self._layers = layer_numbers(settings, shape.depth)
        self._width = shape.width * len(self._layers)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        import torch

        rows = np.empty((len(texts), self._width), np.float32)
        order = np.argsort([-len(text) for text in texts], kind="stable")  # texts of like length pad little
        size = self.settings.batch_size or _BATCH
        for first in range(0, len(order), size):
            some = order[first : first + size]
            encoded = self.tokenizer(
                [self.prompt + texts[number] for number in some], padding=True, return_tensors="pt", verbose=False
            ).to(self._model.device)
            with torch.inference_mode(), one_thread():
                states = self._model(**encoded, output_hidden_states=True).hidden_states
                pooled = [self._pool(states[layer].float(), encoded["attention_mask"]) for layer in self._layers]
                rows[some] = torch.cat(pooled, dim=1).cpu().numpy()
        return rows

    def _pool(self, states: Any, mask: Any) -> Any:
        if self.settings.pool is TextPool.CLS:
            return states[range(len(states)), mask.argmax(dim=1)]  # the first piece, on whichever side padding is
        mask = mask[:, :, None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)


def open_encoder(model: LocalModel, settings: TextSettings, shape: TextShape) -> TextEncoder:
    """The model, loaded.

    Raises:
        ExtractionError: it cannot be loaded, or its weights are a pickle that could run anything.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model lies here; nothing is to be asked of the hub
    import_torchvision()  # transformers imports it too, and would not survive a wheel that does not match torch
    import torch
    from transformers.utils.logging import disable_progress_bar

    if settings.device is Device.CUDA and not torch.cuda.is_available():
        raise ExtractionError(f"[[embed]] {settings.name}: device = 'cuda', but torch finds no GPU here")
    disable_progress_bar()
    try:
        if settings.pool is TextPool.MODEL:
            return _open_sentence_encoder(model, settings, shape)
        return _open_pooled_encoder(model, settings, shape)
    except ExtractionError:
        raise
    except Exception as error:  # whatever a library says of files that it does not like
        raise ExtractionError(
            f"[[embed]] {settings.name}: {settings.source} cannot be loaded ({type(error).__name__})"
        ) from error


def _open_sentence_encoder(model: LocalModel, settings: TextSettings, shape: TextShape) -> TextEncoder:
    from sentence_transformers import SentenceTransformer

    _load_network(model, settings)  # sentence-transformers does not tell what it has made up
    loaded = SentenceTransformer(
        str(model.folder), device=str(settings.device), model_kwargs=_dtype(settings), local_files_only=True
    )
    return _SentenceEncoder(loaded, settings, shape)


def _open_pooled_encoder(model: LocalModel, settings: TextSettings, shape: TextShape) -> TextEncoder:
    from transformers import AutoTokenizer

    loaded = _load_network(model, settings)
    if loaded.config.is_encoder_decoder:
        loaded = loaded.get_encoder()
    tokenizer = AutoTokenizer.from_pretrained(str(model.folder), local_files_only=True, trust_remote_code=False)
    return _PooledEncoder(loaded.eval().to(str(settings.device)), tokenizer, settings, shape)


def _load_network(model: LocalModel, settings: TextSettings) -> Any:
    """The network, all of whose weights that matter come from its files: transformers makes the others up.

    Raises:
        ExtractionError: some are in no file.
    """
    from transformers import AutoModel

    options = {"local_files_only": True, "trust_remote_code": False, **_dtype(settings)}
    loaded, told = AutoModel.from_pretrained(str(model.folder), output_loading_info=True, **options)
    missing = sorted(name for name in told["missing_keys"] if not any(part in name for part in _UNUSED))
    if missing:
        raise ExtractionError(
            f"[[embed]] {settings.name}: {len(missing)} weights of {settings.source} are in none of its files, for "
            f"instance {missing[0]}: they would be random numbers"
        )
    return loaded


def _dtype(settings: TextSettings) -> dict[str, Any]:
    """What a loader is told of the precision; float32 is what the files' own would be computed in as well."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = settings.precision is Precision.TF32
    halves = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}
    return {"dtype": halves.get(settings.precision, torch.float32)}


def _limit(model: Any, tokenizer: Any) -> int:
    """How many pieces the model reads at once."""
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    # Of RoBERTa and its like positions begin behind the number of the padding piece, which their table has to know.
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    behind = [number for table in tables if (number := getattr(table, "padding_idx", None)) is not None]
    if positions and behind:
        positions -= behind[0] + 1
    known = [number for number in (tokenizer.model_max_length, positions) if number and 0 < number < _UNLIMITED]
    return min(known, default=_USUAL_PIECES)
