"""glove: a 300-number vector per word of the transcript (Pennington et al., EMNLP 2014), through gensim.

GloVe's 840B vectors were trained on text that Stanford's tokenizer had split: ``20 %``, ``$ 20``, ``do n't``, ``U.S.``,
``well-known``. A transcript's words are split at spaces only, so a word that is not in the vocabulary as a whole is
split in that way here; docs/study.md gives the rule.

The published text form has one word and its numbers a line. It is read once into a memory-mapped gensim KeyedVectors
that all workers share. A word may itself contain spaces (``. . .`` in glove.840B), so a line is split from its right
end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import FEATURES, STORY_FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.store.storage.files import flush_tree
from storyframes.store.storage.locks import locked
from storyframes.store.storage.scratch import scratch_beside
from tasks.extractors.base import ALL, Cost, ExtractionError, ExtractorSettings, Input, Scope, Tolerance
from tasks.extractors.text.extractor import TextExtractor
from tasks.models import weights
from tasks.models.digests import model_digest, user_cache

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

WIDTH = 300
_CONVERSION_S = 3600  # of the largest vectors on a slow disk
_FILE = "vectors.kv"
_PLAIN = str.maketrans(dict.fromkeys("’‘ʼ`´", "'") | dict.fromkeys("“”„«»", '"') | {"‑": "-"})
_EDGES = "\"'()[]{}<>.,;:!?…–—-*_/\\"
_TOKEN = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+\.?"  # U.S., e.g.
    r"|\d+(?:[.,:/]\d+)*\w*"  # 3.5, 1,000, 10:30, 1/2, 20th
    r"|\w+(?:[-'.&/@]\w+)*"  # well-known, don't, AT&T, and/or
    r"|[^\w\s]"
)
_CONTRACTION = re.compile(r"(.+?)(n't|'(?:s|m|d|re|ve|ll))", re.IGNORECASE)
_TWO_WORDS = ("cannot", "gonna", "gotta", "wanna", "gimme", "lemme")  # three letters and the rest


class GloveSettings(ExtractorSettings):
    """``[glove]``"""

    # a published ``glove.*.300d.txt``; without it glove.840B.300d.txt as ``models fetch`` leaves it
    vectors: Path | None = None
    demo_vectors: bool = False  # these vectors mean nothing (the demo's): a caveat of the values


class Glove(TextExtractor[GloveSettings]):
    """The ``glove`` extractor of a session."""

    spec = FEATURES["glove"]
    Settings = GloveSettings
    version = 6  # what is not speech, and repeated lines of captions, are no words
    of_words = True
    libraries = ("gensim",)
    imports = ("gensim",)
    tolerance: ClassVar = {ALL: Tolerance(1e-6)}

    @property
    def cost(self) -> Cost:
        return Cost(0.005)

    def value_settings(self) -> Mapping[str, Any]:
        return {"demo_vectors": self.settings.demo_vectors}

    def models(self) -> Mapping[str, str]:
        return {"vectors": model_digest(vectors_file(self.settings))}

    def fetch_models(self) -> Iterable[Path]:
        if self.settings.vectors is not None:
            return []
        try:
            return [weights.fetch(weights.MODELS["glove-840b"])]
        except weights.WeightsError as error:
            raise ExtractionError(str(error)) from None

    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        values, has_vector = look_up(texts, _load(self.settings, out))
        out.write("values", values)
        out.write("known", has_vector.astype(np.uint8))
        if texts:
            out.quality["words_known"] = float(has_vector.mean())


class StoryGlove(Glove):
    """The ``glove`` extractor of the story texts: the mean of each story's known words."""

    spec = STORY_FEATURES["glove"]
    version = 2
    scope = Scope.STORIES
    inputs = (Input.STORIES,)
    after = ()

    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        vectors = _load(self.settings, out)
        values, shares = out.array("values"), out.array("known")
        words = words_known = 0
        for text in texts:
            rows, has_vector = look_up(text.split(), vectors)
            share = has_vector.mean() if len(has_vector) else 0.0
            mean = rows[has_vector].mean(axis=0) if has_vector.any() else np.full(WIDTH, np.nan, np.float32)
            values.append(mean[None])
            shares.append(np.array([share], np.float32))
            words, words_known = words + len(has_vector), words_known + int(has_vector.sum())
        if words:
            out.quality["words_known"] = words_known / words


def vectors_file(settings: GloveSettings) -> Path:
    """The vector file to use.

    Raises:
        ExtractionError: there is none.
    """
    if settings.vectors is not None:
        if not settings.vectors.is_file():
            raise ExtractionError(f"[glove] vectors = {str(settings.vectors)!r} does not exist")
        return settings.vectors
    published = weights.MODELS["glove-840b"]
    if path := published.path_here:
        return path
    raise ExtractionError(
        f"there is no {published.path.name}: run 'storyframes models fetch {published.name}' (2.2 GB), or set [glove] "
        "vectors = the path of a glove.*.300d.txt"
    )


def _load(settings: GloveSettings, out: FeatureWriter) -> KeyedVectors:
    try:
        vectors = load_word_vectors(vectors_file(settings))
    except WordVectorsError as error:
        raise ExtractionError(str(error)) from None
    if vectors.vector_size != WIDTH:
        raise ExtractionError(f"the GloVe vectors have {vectors.vector_size} values, not {WIDTH}: take a .300d.txt")
    if settings.demo_vectors:
        out.caveat(Caveat.DEMO_VECTORS)
    return vectors


def look_up(words: Sequence[str], vectors: KeyedVectors) -> tuple[np.ndarray, np.ndarray]:
    """The words' vectors, by the rule of docs/study.md.

    A word that the vocabulary has as a whole gets that vector. One that it has in parts (``20%``, ``don't``) gets the
    mean of its parts' vectors, if every part with a letter or digit is known.

    Returns:
        (W, 300) float32 with NaN for unknown words, and (W,) bool: which are known.
    """
    values = np.full((len(words), WIDTH), np.nan, np.float32)
    for row, word in enumerate(words):
        if whole := _first_known(whole_forms(word), vectors):
            values[row] = vectors[whole]
            continue
        tokens = [(token, _first_known([token, token.lower()], vectors)) for token in split_forms(word)]
        of_forms = [vectors[form] for _, form in tokens if form]
        if of_forms and all(form or is_symbol(token) for token, form in tokens):
            values[row] = np.mean(of_forms, axis=0)
    return values, ~np.isnan(values[:, 0])


def _first_known(forms: Sequence[str], vectors: KeyedVectors) -> str | None:
    return next((form for form in forms if form in vectors.key_to_index), None)


# --- the forms of a word ---------------------------------------------------------------------------------------------


def whole_forms(word: str) -> list[str]:
    """The forms of ``word`` as one token, the most literal first: as written, without what surrounds it, lower case."""
    plain = word.translate(_PLAIN)
    bare = plain.strip(_EDGES)
    ends_with_stop = plain.rstrip(_EDGES.replace(".", "")).endswith(".")
    with_stop = f"{bare}." if ends_with_stop else bare  # an abbreviation's own: the vocabulary tells
    derived = (plain, with_stop, bare, with_stop.lower(), bare.lower())
    return list(dict.fromkeys([word, *(form for form in derived if bare)]))


def split_forms(word: str) -> list[str]:
    """The tokens that Stanford's tokenizer would make of ``word``, without its punctuation; symbols (% $) stay."""
    tokens = [token for token in _TOKEN.findall(word.translate(_PLAIN)) if token not in _EDGES]
    return [part for token in tokens for part in _parts(token)]


def _parts(token: str) -> list[str]:
    if contraction := _CONTRACTION.fullmatch(token):
        return [*_parts(contraction.group(1)), contraction.group(2)]
    if token.lower() in _TWO_WORDS:
        return [token[:3], token[3:]]
    return [token]


def is_symbol(token: str) -> bool:
    """Whether it has neither letter nor digit."""
    return not any(character.isalnum() for character in token)


# --- the file of vectors ---------------------------------------------------------------------------------------------


class WordVectorsError(Exception):
    """The vector file is damaged; the message names the line."""


def load_word_vectors(path: Path) -> KeyedVectors:
    """The vectors of a GloVe text file, mapped from a binary form that is made on first use.

    Args:
        path: ``glove.*.txt``.

    Raises:
        WordVectorsError: a line has another number of values than the first, or something that is not a number.
    """
    from gensim.models import KeyedVectors

    digest = model_digest(path)
    folder = user_cache() / "word-vectors" / digest[:32]
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.is_dir():
        with locked(folder.parent / f".{folder.name}.lock", _CONVERSION_S):  # one worker converts, the others wait
            if not folder.is_dir():
                _convert(path, folder)
    return KeyedVectors.load(str(folder / _FILE), mmap="r")


def _convert(path: Path, folder: Path) -> None:
    from gensim.models import KeyedVectors

    with scratch_beside(folder) as scratch:
        count, width = _measure(path)
        vectors = np.lib.format.open_memmap(scratch / "raw.npy", mode="w+", dtype=np.float32, shape=(count, width))
        words = _fill(path, vectors)
        keyed = KeyedVectors(width)
        keyed.index_to_key = list(words)
        keyed.key_to_index = words
        keyed.vectors = vectors[: len(words)]
        keyed.save(str(scratch / _FILE), sep_limit=0)
        del keyed, vectors
        (scratch / "raw.npy").unlink()
        flush_tree(scratch)
        os.rename(scratch, folder)


def _measure(path: Path) -> tuple[int, int]:
    """Lines of the file, and values of a line (its first: every further one must agree)."""
    with path.open("rb") as file:
        first = file.readline().rstrip().split(b" ")
        width = 0
        while width < len(first) and _is_number(first[-1 - width]):
            width += 1
        width = min(width, len(first) - 1)  # the word may be a number itself
        if width < 2:
            raise WordVectorsError(f"{path.name}, line 1: is not a word and its numbers")
        return 1 + sum(1 for _ in file), width


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fill(path: Path, vectors: np.ndarray) -> dict[str, int]:
    width = vectors.shape[1]
    words: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            word, *values = line.rstrip(b"\n").rstrip().rsplit(b" ", width)
            try:
                row = np.array(values, dtype=np.float32)
            except ValueError:
                raise WordVectorsError(f"{path.name}, line {number}: has something that is not a number") from None
            if len(row) != width:
                raise WordVectorsError(f"{path.name}, line {number}: has {len(row)} values, line 1 has {width}")
            text = word.decode("utf-8", errors="replace")
            if text not in words:  # a repeated word keeps its first vector
                vectors[len(words)] = row
                words[text] = len(words)
    return words
