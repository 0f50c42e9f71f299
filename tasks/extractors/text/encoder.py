"""Embedding texts by a sentence model, or by any encoder with a pool of ours; texts too long for a model in chunks."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.extractor import layer_numbers
from tasks.extractors.embed.loading import activated, load_classifier
from tasks.extractors.embed.local_model import LocalModel, check_memory
from tasks.extractors.embed.scores import Head
from tasks.extractors.embed.settings import Kind
from tasks.extractors.settings import Precision
from tasks.extractors.text.model import TextPool, TextSettings, TextShape, text_shape
from tasks.extractors.torch_compute import check_device, computing, torch_dtype
from tasks.models.libraries import import_torchvision, loading

_BATCH = 32
_USUAL_PIECES = 512  # where neither the model nor its tokenizer says how much it reads
_UNLIMITED = 10**6  # tokenizers say 1e30 where they do not know
_MOST_ROUNDING = 1e-3  # of a vector's length: by more, padding beside a text has changed it
_MOST_ROUNDING_OF_HALVES = 2e-2
_SAME = 1e-5  # of a vector's length: a decoder's first piece differs by less, whatever follows it
_UNUSED = ("pooler.", "decoder.", "position_ids")  # of a network: hidden states are taken before, or elsewhere


@dataclass(frozen=True)
class Chunk:
    """A part of a text."""

    text: str  # its words, as they are in the text
    pieces: int  # word pieces that the tokenizer makes of them, without its marks of beginning and end


def chunks(text: str, tokenizer: Any, most_pieces: int) -> list[Chunk]:
    """The text in as few chunks as can be, cut between words; one chunk where the model reads it whole.

    Args:
        most_pieces: of a chunk. Only a single word that has more is cut inside.
    """
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    spans, words = encoded["offset_mapping"], encoded.word_ids()
    parts, first = [], 0
    while len(spans) - first > most_pieces:
        stop = first + most_pieces
        while stop > first and words[stop] == words[stop - 1]:  # inside a word
            stop -= 1
        stop = stop if stop > first else first + most_pieces
        parts.append(Chunk(text[spans[first][0] : spans[stop][0]].rstrip(), stop - first))
        first = stop
    rest = text[spans[first][0] :] if parts else text
    return [*parts, Chunk(rest, len(spans) - first)]


def embed_in_chunks(
    texts: Sequence[Sequence[Chunk]], embed: Callable[[Sequence[str]], np.ndarray], *, unit_length: bool = True
) -> np.ndarray:
    """One vector for each text: the mean of its chunks' vectors, by their word pieces.

    Args:
        embed: texts in, (n, width) float32 out.
        unit_length: these are of unit length, and the mean is made so again.

    Returns:
        (texts, width) float32.
    """
    vectors = embed([chunk.text for text in texts for chunk in text])
    means, first = np.empty((len(texts), vectors.shape[1]), np.float32), 0
    for row, text in enumerate(texts):
        part = vectors[first : first + len(text)].astype(np.float64)
        first += len(text)
        if len(text) == 1:
            means[row] = part[0]  # as the model gives it, to the bit
            continue
        mean = np.average(part, axis=0, weights=[chunk.pieces for chunk in text])
        means[row] = mean / np.linalg.norm(mean) if unit_length else mean
    return means


class TextEncoder(ABC):
    """A loaded model of texts.

    Args:
        limit: word pieces that the model reads at once, with its marks.

    Attributes:
        limit: the same, or ``max_pieces`` of the section if that is less.
        prompt: put before every text.

    Raises:
        ExtractionError: the tokenizer cannot divide long texts, or ``max_pieces`` is more than the model reads.
    """

    def __init__(self, settings: TextSettings, tokenizer: Any, limit: int, shape: TextShape) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ExtractionError(f"{settings.label} has no fast tokenizer, by which long texts are divided")
        if settings.max_pieces and settings.max_pieces > limit:
            raise ExtractionError(
                f"{settings.section}: max_pieces = {settings.max_pieces}, but {settings.source} reads {limit}"
            )
        self.settings = settings
        self.tokenizer = tokenizer
        self.limit = settings.max_pieces or limit
        self.prompt = settings.prompt
        self._unit_length = shape.unit_length

    @abstractmethod
    def embed_together(self, texts: Sequence[str]) -> np.ndarray:
        """Texts in batches, the shorter ones padded, those beyond the limit cut if the model cuts them.

        Returns:
            (n, width) float32.
        """

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Texts that the model reads whole: (n, width) float32.

        If padding changes what a model gives, only texts of one length go through it together.
        """
        lengths = np.array([self._length(text) for text in texts])
        if len(set(lengths.tolist())) < 2 or not self._padding_matters:
            return self.embed_together(texts)
        groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        rows = np.concatenate([self.embed_together([texts[number] for number in group.tolist()]) for group in groups])
        return rows[np.argsort(np.concatenate(groups))]

    @cached_property
    def _padding_matters(self) -> bool:
        """Whether a text has another vector beside a longer one than alone.

        That is so if the tokenizer pads on the left and the model counts positions from there, and if convolutions see
        what attention leaves out.
        """
        short = longer = "a"
        while self._length(f"{longer} a") <= min(self.limit, 2 * _BATCH):
            longer = f"{longer} a"
        (alone,), (beside, _) = self.embed_together([short]), self.embed_together([short, longer])
        halves = self.settings.precision is not Precision.FLOAT32
        most = _MOST_ROUNDING_OF_HALVES if halves else _MOST_ROUNDING
        return bool(np.linalg.norm(beside - alone) > most * np.linalg.norm(alone))

    def embed_whole(self, texts: Sequence[str], row_name: str) -> tuple[np.ndarray, list[int]]:
        """The whole texts' embeddings, (n, width) float32, and how many chunks each was put together from.

        Raises:
            ExtractionError: the model gives NaN or infinity. The message has the text's number and what ``row_name``
                calls it, not the text.
        """
        parts = [self._chunks(text) for text in texts]
        values = embed_in_chunks(parts, self.embed, unit_length=self._unit_length)
        broken = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(broken):
            raise ExtractionError(
                f"{self.settings.section}: the model gives NaN or infinity for {row_name} {broken[0] + 1} "
                f"(and {len(broken) - 1} others of {len(values)}): try precision = 'float32'"
            )
        return values, [len(part) for part in parts]

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of each text's word pieces, with the marks around them."""
        return self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []

    def _chunks(self, text: str) -> list[Chunk]:
        """The text in parts that the model reads whole, each with the prompt and the marks."""
        most = self.limit - (self._length("") if self.prompt else self.tokenizer.num_special_tokens_to_add())
        while most > 0:
            parts = chunks(text, self.tokenizer, most)
            # Alone, a part may have more pieces than it had in the text: a space before it made a difference.
            longest = max(self._length(chunk.text) for chunk in parts)
            if longest <= self.limit:
                return parts
            most -= longest - self.limit
        raise ExtractionError(f"{self.settings.section}: the prompt leaves no room for texts")

    def _length(self, text: str) -> int:
        return len(self.tokenizer(self.prompt + text, verbose=False)["input_ids"])


class SentenceEncoder(TextEncoder):
    """A sentence model, with a pooling of its own; ``model`` is the object of sentence-transformers."""

    def __init__(self, model: Any, settings: TextSettings, shape: TextShape) -> None:
        super().__init__(settings, model.tokenizer, model.max_seq_length or sys.maxsize, shape)
        if settings.max_pieces:
            model.max_seq_length = settings.max_pieces
        self.prompt = settings.prompt or model.prompts.get(model.default_prompt_name or "", "")
        self.model = model
        self._width = shape.width

    def embed_together(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, self._width), np.float32)
        with computing(str(self.settings.device), tf32=self.settings.precision is Precision.TF32):
            rows = self.model.encode(
                list(texts),
                prompt=self.prompt or None,
                batch_size=self.settings.batch_size or _BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return rows.astype(np.float32)


class PooledEncoder(TextEncoder):
    """Any encoder; its word pieces' vectors are pooled here, and the scores of its head follow them if it has one."""

    def __init__(
        self, model: Any, tokenizer: Any, settings: TextSettings, shape: TextShape, head: Head | None = None
    ) -> None:
        super().__init__(settings, tokenizer, _limit(model, tokenizer), shape)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        # the head of a decoder finds a text's end by the piece of padding that its configuration names
        ends_are_found = head is None or model.config.get_text_config().pad_token_id is not None
        self._pads = tokenizer.pad_token_id is not None and ends_are_found
        if settings.pool is TextPool.LAST:  # a decoder's pieces do not see what follows them, so nothing changes them
            tokenizer.padding_side = "right"
        self._model, self._head = model, head
        self._layers = layer_numbers(settings, shape.depth) if settings.gives_hidden else ()
        self._hidden = shape.width * len(self._layers)
        self._width = self._hidden + (len(head.labels) if head else 0)
        if self._layers and settings.pool is TextPool.CLS:
            self._refuse_blind_first_piece()

    def embed_together(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.empty((len(texts), self._width), np.float32)
        order = np.argsort([-len(text) for text in texts], kind="stable")  # texts of like length pad little
        size = (self.settings.batch_size or _BATCH) if self._pads else 1
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            encoded = self.tokenizer(
                [self.prompt + texts[number] for number in batch],
                padding=self._pads,
                return_tensors="pt",
                verbose=False,
            ).to(self._model.device)
            with computing(str(self.settings.device), tf32=self.settings.precision is Precision.TF32):
                outputs = self._model(**encoded, output_hidden_states=bool(self._layers))
                mask = encoded["attention_mask"]
                parts = [self._pool(outputs.hidden_states[layer].float(), mask) for layer in self._layers]
                if self._head is not None:
                    parts.append(activated(outputs.logits, self._head.activation))
                rows[batch] = torch.cat(parts, dim=1).cpu().numpy()
        return rows

    def _refuse_blind_first_piece(self) -> None:
        """Refuse a first piece that does not see what follows it, as of a decoder or before the first block.

        Raises:
            ExtractionError: it has the same vector in two texts that differ behind it.
        """
        if self.tokenizer("a b")["input_ids"] == self.tokenizer("a c")["input_ids"]:
            return  # neither is in its vocabulary
        prompt, self.prompt = self.prompt, ""
        try:
            a, b = (self.embed_together([text])[0, : self._hidden] for text in ("a b", "a c"))
        finally:
            self.prompt = prompt
        if np.linalg.norm(a - b) <= _SAME * np.linalg.norm(a):
            raise ExtractionError(
                f"{self.settings.label}: pool = 'cls' gives the same vector for every text, as the first piece does "
                "not see those that follow it: set pool = 'last' or 'mean'"
            )

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.settings.pool is TextPool.CLS:
            return states[range(len(states)), mask.argmax(dim=1)]  # the first piece, on whichever side padding is
        if self.settings.pool is TextPool.LAST:
            return states[range(len(states)), mask.shape[1] - 1 - mask.flip(1).argmax(dim=1)]
        mask = mask[:, :, None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)


def open_encoder(model: LocalModel, settings: TextSettings, head: Head | None = None) -> TextEncoder:
    """The model, loaded; with its head where scores are asked for.

    Raises:
        ExtractionError: it cannot be loaded, or its weights are a pickle that could run anything.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model is on this machine; the hub must not be asked
    import_torchvision()  # transformers imports it too, and fails on a wheel that does not match torch
    from transformers.utils.logging import disable_progress_bar

    check_device(settings.device, f"{settings.section}:")
    check_memory(model, settings)
    disable_progress_bar()
    try:
        with loading():
            if settings.pool is TextPool.MODEL and head is None:
                return _open_sentence_encoder(model, settings)
            return _open_pooled_encoder(model, settings, head)
    except ExtractionError:
        raise
    except Exception as error:  # a library raises anything for files that it does not like
        raise ExtractionError(f"{settings.label} cannot be loaded ({type(error).__name__})") from error


def _open_sentence_encoder(model: LocalModel, settings: TextSettings) -> SentenceEncoder:
    from sentence_transformers import SentenceTransformer

    shape = text_shape(model, settings)
    _check_weights(str(model.folder), settings.label, torch_dtype(settings.precision), model.digest)
    loaded = SentenceTransformer(
        str(model.folder),
        device=str(settings.device),
        model_kwargs={"dtype": torch_dtype(settings.precision)},
        local_files_only=True,
    )
    return SentenceEncoder(loaded, settings, shape)


def _open_pooled_encoder(model: LocalModel, settings: TextSettings, head: Head | None) -> PooledEncoder:
    from transformers import AutoTokenizer

    folder, dtype = model.folder or Path(), torch_dtype(settings.precision)
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    if head is None:
        loaded = _load_network(str(folder), settings.label, dtype)
        loaded = loaded.get_encoder() if loaded.config.is_encoder_decoder else loaded
    else:
        loaded = load_classifier(
            Kind.TEXT, folder, f"{settings.label}:", allow_untrained=settings.allow_untrained, dtype=dtype
        )
        config = loaded.config.get_text_config()
        if config.pad_token_id is None:  # by which the head of a decoder finds a text's end
            config.pad_token_id = tokenizer.pad_token_id
    network = loaded.eval().to(str(settings.device))
    for module in network.modules():
        if getattr(getattr(module, "config", None), "use_cache", False):  # keys and values of texts that go on
            module.config.use_cache = False
    return PooledEncoder(network, tokenizer, settings, text_shape(model, settings), head)


@lru_cache(maxsize=8)
def _check_weights(folder: str, label: str, dtype: torch.dtype, digest: str) -> None:
    """:func:`_load_network`, once per process for the files of a digest.

    sentence-transformers does not report weights that it has made up, so a sentence model is loaded twice the first
    time.
    """
    _load_network(folder, label, dtype)


def _load_network(folder: str, label: str, dtype: torch.dtype) -> Any:
    """The network; all of its weights that matter come from its files, as transformers makes up those that are missing.

    Raises:
        ExtractionError: some are in no file.
    """
    from transformers import AutoModel

    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "dtype": dtype}
    loaded, report = AutoModel.from_pretrained(folder, output_loading_info=True, **options)
    missing = sorted(name for name in report["missing_keys"] if not any(part in name for part in _UNUSED))
    if missing:
        raise ExtractionError(
            f"{label}: {len(missing)} weights of the model are in none of its files, for instance "
            f"{missing[0]}: they would be random numbers"
        )
    return loaded


def _limit(model: Any, tokenizer: Any) -> int:
    """How many pieces the model reads at once."""
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    # In RoBERTa and its like, positions begin behind the number of the padding piece, which their table has to know.
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    behind = [number for table in tables if (number := getattr(table, "padding_idx", None)) is not None]
    if positions and behind:
        positions -= behind[0] + 1
    limits = [number for number in (tokenizer.model_max_length, positions) if number and 0 < number < _UNLIMITED]
    return min(limits, default=_USUAL_PIECES)
