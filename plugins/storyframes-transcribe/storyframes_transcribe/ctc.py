"""Forced alignment: when each word of a known text was said, by a wav2vec 2.0 with a CTC head (Graves et al., 2006).

``best_path`` is Viterbi's algorithm in numpy over the states around the likeliest one, with the ways back of one block
of frames at a time, so an hour of sound needs little memory. torchaudio's ``forced_align`` (deprecated in 2.8, kept in
2.10: pytorch/audio#3902) keeps those of all frames, and nothing else here needs torchaudio.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from tasks.extractors import AudioShape, ExtractionError, SoundRows, moments
from tasks.models import import_torchvision, model_digest

_BAND = 4096  # states that are looked at in each frame, twice as many as characters: minutes of speech
_BLOCK = 2000  # frames whose ways back are in memory
_FILES = (".json", ".safetensors")
_CHUNK_S, _CONTEXT_S = 20.0, 2.0
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ`´", "'"))


@dataclass(frozen=True)
class AlignedWord:
    """When a word was said, seconds, and how sure that is; None where it is not known.

    ``confidence`` is the mean posterior probability of what each frame from its first to its last was taken for, one of
    its characters or a blank, without blanks where the model hears nothing else.
    """

    start_s: float | None = None
    end_s: float | None = None
    confidence: float | None = None


class CtcModel:
    """A wav2vec 2.0 (or HuBERT, WavLM, …) with a CTC head, in a folder as transformers saves it.

    Raises:
        ExtractionError: it cannot be loaded, or is none.
    """

    batch_size, ahead = 1, 0  # as SoundRows asks

    def __init__(self, folder: Path) -> None:
        where, self._folder = f"the model {folder.name}", folder
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ExtractionError(
                f"{where} lacks a config.json or vocab.json that can be read: is it a CTC model?"
            ) from None
        self.shape: AudioShape = AudioShape.of(folder, config, where)
        self.blank = int(config.get("pad_token_id") or 0)
        self.numbers = {character: number for character, number in vocabulary.items() if len(character) == 1}
        self.between = self.numbers.pop("|", None)
        self._network = _load(folder, where)
        if len(vocabulary) > self._network.config.vocab_size:
            raise ExtractionError(
                f"{where}: its vocab.json has more entries than the network: they do not belong together"
            )

    def digests(self) -> dict[str, str]:
        """By name, the SHA-256 of its files."""
        return {path.name: model_digest(path) for path in sorted(self._folder.glob("*")) if path.suffix in _FILES}

    def embed(self, windows: Sequence[np.ndarray], mean: float, variance: float) -> list[np.ndarray]:
        """For each window (rows, characters) float32, the logarithms of the characters' probabilities."""
        import torch

        if self.shape.normalises:
            windows = [((window - mean) / np.sqrt(variance + 1e-7)).astype(np.float32) for window in windows]
        with torch.inference_mode():
            logits = self._network(torch.from_numpy(np.stack(windows))).logits
        return list(logits.float().log_softmax(dim=-1).numpy())

    def log_probabilities(self, blocks: Iterable[np.ndarray], whole: Iterable[np.ndarray]) -> np.ndarray:
        """(T, characters) float32 of a sound; ``whole`` are the same blocks, for its mean and variance."""
        of_sound = moments(whole) if self.shape.normalises else (0.0, 1.0)
        rows = [*SoundRows(cast(Any, self), self.shape, _CHUNK_S, _CONTEXT_S, of_sound).of(blocks)]
        return np.concatenate(rows) if rows else np.empty((0, 1), np.float32)

    def characters(self, word: str) -> list[int] | None:
        """A word's characters as the model numbers them; None where it has letters or digits that the model lacks."""
        found = []
        for character in unicodedata.normalize("NFKC", word).translate(_APOSTROPHES):
            forms = (character, character.upper(), character.lower())
            number = next((self.numbers[form] for form in forms if form in self.numbers), None)
            if number is not None:
                found.append(number)
            elif character.isalnum():
                return None
        return found if any(character.isalnum() for character in word) else []


def _load(folder: Path, where: str) -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model is on this machine; the hub must not be asked
    import_torchvision()  # transformers imports it too, and fails on a wheel that does not match torch
    import torch
    from transformers import AutoModelForCTC
    from transformers.utils.logging import disable_progress_bar

    torch.set_num_threads(1)  # more give other values, and wait for each other where the processors are busy
    disable_progress_bar()
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    try:
        network, report = AutoModelForCTC.from_pretrained(str(folder), output_loading_info=True, **options)
    except Exception as error:  # whatever a library says of files that it does not like
        raise ExtractionError(f"{where} cannot be loaded ({type(error).__name__}): it has to be a CTC model") from None
    if missing := [name for name in report["missing_keys"] if "masked_spec_embed" not in name]:
        raise ExtractionError(f"{where} has no weights for {missing[0]}: it is no CTC model, or was not trained as one")
    return network.float().eval()


def align(
    log_probabilities: np.ndarray, words: Sequence[str], model: CtcModel, start_s: float
) -> list[AlignedWord] | None:
    """When each word was said, in a sound in which nothing else is said.

    A word with characters that the model lacks (digits, another script) takes any characters on the way, and has no
    times of its own.

    Args:
        log_probabilities: (T, characters) of consecutive frames.
        start_s: of the first frame's middle.

    Returns:
        One for each word; None where there is no such way: more characters than frames, or no character at all.
    """
    any_character = log_probabilities.shape[1]  # one column more
    silent = log_probabilities[:, [model.blank, *([] if model.between is None else [model.between])]]
    with np.errstate(divide="ignore"):
        voiced = np.log(np.maximum(1 - np.exp(silent.astype(np.float64)).sum(axis=1), 1e-9)).astype(np.float32)
    known = [model.characters(word) for word in words]
    labels: list[int] = []
    owners: list[int] = []  # the word of each label, -1 between two
    for place, characters in enumerate(known):
        numbers = [any_character] if characters is None else characters
        if numbers and labels and model.between is not None:
            labels.append(model.between)
            owners.append(-1)
        labels += numbers
        owners += [place] * len(numbers)
    path = best_path(np.column_stack([log_probabilities, voiced]), labels, model.blank)
    if path is None:
        return None
    taken = np.where(path < 0, model.blank, np.array(labels)[path])
    posterior = np.exp(log_probabilities[np.arange(len(path)), np.minimum(taken, any_character - 1)])
    # A blank where the model hears one: silence within a word that was stretched over it would count as certainty.
    says_something = (path >= 0) | (posterior < 0.5)
    aligned = [AlignedWord() for _ in words]
    owner_of = np.array(owners)[np.maximum(path, 0)]
    owner_of[path < 0] = -1
    row_s = model.shape.row_s
    for place, characters in enumerate(known):
        if not characters:
            continue
        frames = np.flatnonzero(owner_of == place)
        span = slice(int(frames[0]), int(frames[-1]) + 1)
        first, stop = (start_s + row_s * (frame - 0.5) for frame in (span.start, span.stop))
        aligned[place] = AlignedWord(first, stop, float(posterior[span][says_something[span]].mean()))
    return aligned


# --- Viterbi ----------------------------------------------------------------------------------------------------------


def best_path(log_probabilities: np.ndarray, labels: Sequence[int], blank: int, band: int = _BAND) -> np.ndarray | None:
    """The likeliest way through ``labels`` in which each has at least one frame, in their order.

    States are the labels with blanks between them. In each frame those ``band`` are looked at whose middle is the
    likeliest state so far. The frames are gone through twice, so that the ways back of one block are kept, not of all.

    Args:
        log_probabilities: (T, K) float32.
        labels: of 0 to K - 1.

    Returns:
        (T,) for each frame the place of its label in ``labels``, -1 where it is blank; None where no way was found.
    """
    if not labels or not len(log_probabilities):
        return None
    states = np.full(2 * len(labels) + 1, blank, np.int64)
    states[1::2] = labels
    may_skip = np.zeros(len(states), bool)  # the blank before: not between two equal ones
    may_skip[3::2] = states[3::2] != states[1:-2:2]
    band = min(band, len(states))
    score = np.full(band, -np.inf, np.float32)
    score[:2] = log_probabilities[0, states[:2]]
    begins = [(score, 0)]
    for first in range(1, len(log_probabilities), _BLOCK):
        score, low, _, _ = _forward(log_probabilities[first : first + _BLOCK], states, may_skip, *begins[-1])
        begins.append((score, low))
    score, low = begins.pop()
    ends = [state for state in (len(states) - 1, len(states) - 2) if 0 <= state - low < band]
    if not ends or not np.isfinite(best := max(score[state - low] for state in ends)):
        return None
    state = next(state for state in ends if score[state - low] == best)
    path = np.empty(len(log_probabilities), np.int64)
    for number in range(len(begins) - 1, -1, -1):
        first = 1 + number * _BLOCK
        block = log_probabilities[first : first + _BLOCK]
        _, _, back, lows = _forward(block, states, may_skip, *begins[number])
        for frame in range(len(block) - 1, -1, -1):
            path[first + frame] = state
            state -= int(back[frame, state - lows[frame]])
    path[0] = state
    return np.where(path % 2, path // 2, -1)


def _forward(
    log_probabilities: np.ndarray, states: np.ndarray, may_skip: np.ndarray, score: np.ndarray, low: int
) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    """Some frames: the scores after them, and of each frame how many states each of the band is after the one before.

    Scores are relative to the best; ``low`` is the first state of the band, (frames,) ``lows`` that of each frame.
    """
    band = len(score)
    back = np.empty((len(log_probabilities), band), np.uint8)
    lows = np.empty(len(log_probabilities), np.int64)
    for frame, row in enumerate(log_probabilities):
        new_low = min(max(int(score.argmax()) + low - band // 2, low), len(states) - band)
        shift, low = new_low - low, new_low
        before = np.full(band + shift + 2, -np.inf, np.float32)
        before[2 : band + 2] = score
        stay, step, skip = (before[shift + 2 - by :][:band] for by in range(3))
        here = slice(low, low + band)
        skip = np.where(may_skip[here], skip, -np.inf)
        moved = step > stay
        score = np.where(moved, step, stay)
        skipped = skip > score
        score = np.where(skipped, skip, score) + row[states[here]]
        score -= max(score.max(), np.float32(-1e30))
        back[frame] = np.where(skipped, 2, moved)
        lows[frame] = low
    return score, low, back, lows
