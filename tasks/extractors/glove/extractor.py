"""glove: a 300-number vector per word of the transcript (Pennington et al., EMNLP 2014), through gensim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from tasks.extractors.glove.word_forms import is_symbol, split_forms, whole_forms
from tasks.extractors.glove.word_vectors import WordVectorsError, load_word_vectors
from tasks.extractors.speech import note_after_end, note_interpolation, read_speech, speaker_labels
from tasks.extractors.stories import read_stories
from tasks.models import weights
from tasks.models.digests import model_digest

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

WIDTH = 300


class GloveSettings(ExtractorSettings):
    """``[glove]``

    Attributes:
        vectors: a published ``glove.*.300d.txt``; without it glove.840B.300d.txt as ``models fetch`` leaves it.
        demo_vectors: these vectors mean nothing (the demo's): a caveat of the values.
    """

    vectors: Path | None = None
    demo_vectors: bool = False


class _FromVectors(Extractor[GloveSettings]):
    """What the features of sessions and of stories share."""

    Settings = GloveSettings
    version = 2
    libraries = ("gensim",)
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


class Glove(_FromVectors):
    """The ``glove`` extractor of a session."""

    spec = FEATURES["glove"]
    version = 4  # captions that name their speakers in their text
    inputs = (Input.TRANSCRIPT, Input.VIDEO)
    needs_frames = False

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        transcript = read_speech(source, clock, self.common.transcript, out)
        speakers, labels = speaker_labels([one.speaker for one in transcript.utterances], source.speakers)
        words, utterances = transcript.words(), transcript.utterances_of_words()
        vectors = _load(self.settings, out)
        values, known = look_up([word.text for word in words], vectors)
        start, end = np.array([word.start_s for word in words]), np.array([word.end_s for word in words])
        out.write("values", values)
        out.write("start", start)
        out.write("end", end)
        out.write("known", known.astype(np.uint8))
        out.write("speaker", np.array(speakers, np.int16)[utterances])
        out.attributes["speakers"] = labels
        if clock:
            out.write("frame_word", clock.rows_at(start, end))
            note_after_end(start, clock, out)
        note_interpolation(words, out)
        if words:
            out.quality["words_known"] = float(known.mean())


class StoryGlove(_FromVectors):
    """The ``glove`` extractor of the story texts: the mean of each story's known words."""

    spec = STORY_FEATURES["glove"]
    scope = Scope.STORIES
    inputs = (Input.STORIES,)
    after = ()

    def extract(self, source: Source, out: FeatureWriter) -> None:
        stories = read_stories(source)
        vectors = _load(self.settings, out)
        values, known = out.array("values"), out.array("known")
        words = words_known = 0
        for story in stories:
            found, is_known = look_up(story.text.split(), vectors)
            share = is_known.mean() if len(is_known) else 0.0
            mean = found[is_known].mean(axis=0) if is_known.any() else np.full(WIDTH, np.nan, np.float32)
            values.append(mean[None])
            known.append(np.array([share], np.float32))
            words, words_known = words + len(is_known), words_known + int(is_known.sum())
        if words:
            out.quality["words_known"] = words_known / words
        out.attributes["story_ids"] = [story.story_id for story in stories]


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
    if found := weights.find(published):
        return found
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
        found = [vectors[form] for _, form in tokens if form]
        if found and all(form or is_symbol(token) for token, form in tokens):
            values[row] = np.mean(found, axis=0)
    return values, ~np.isnan(values[:, 0])


def _first_known(forms: Sequence[str], vectors: KeyedVectors) -> str | None:
    return next((form for form in forms if form in vectors.key_to_index), None)
