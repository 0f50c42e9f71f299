"""A model of texts as a feature: one row for each utterance of a session, and one for each story."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from storyframes.features import FEATURES, STORY_FEATURES, FeatureSpec
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import Cost, Input, Scope, Source
from tasks.extractors.embed.extractor import Embedding, column_names, layer_groups, layer_numbers
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.text.settings import TextPool, TextSettings
from tasks.extractors.embed.text.shape import TextShape, text_shape
from tasks.extractors.frames import read_clock_if_any
from tasks.extractors.sbert import note_unknown_scripts
from tasks.extractors.speech import note_after_end, read_speech, speaker_labels
from tasks.extractors.stories import read_stories

_UNITS = {Scope.SESSION: "utterance", Scope.STORIES: "story"}


class _OfTexts(Embedding[TextSettings]):
    """What the features of sessions and of stories share."""

    Settings = TextSettings
    version = 2  # a text's values do not depend on the texts beside it
    libraries = ("sentence-transformers", "transformers", "torch")

    @property
    def cost(self) -> Cost:
        return Cost(0.005, 5.0)

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """As sbert's, whose rows and times it has; with the model's own width."""
        pattern = (FEATURES if self.scope is Scope.SESSION else STORY_FEATURES)["sbert"]
        shape = text_shape(model, self.settings)
        layers = () if self.settings.pool is TextPool.MODEL else layer_numbers(self.settings, shape.depth)
        columns = column_names(self.name, shape.width, layers or (-1,))
        unit = ", unit length" if shape.unit_length else ""
        values = replace(
            pattern.arrays["values"],
            about=f"the {_UNITS[self.scope]}'s embedding{unit}; the mean of its parts where it is longer than is read",
            shape=(len(columns),),
            columns=columns,
        )
        groups = layer_groups(shape.width, layers) if layers else {}
        about = f"texts by {model.origin}:{model.name}, pool {self.settings.pool}"
        return FeatureSpec(self.name, about, {**pattern.arrays, "values": values}, groups)

    def embed(self, texts: Sequence[str], out: FeatureWriter) -> list[int]:
        """Write the texts' embeddings; note what they are of.

        Returns:
            Of how many parts each was put together.
        """
        from tasks.extractors.embed.text.encoder import open_encoder

        self.note_model(out)
        shape: TextShape = text_shape(self.model, self.settings)
        encoder = open_encoder(self.model, self.settings, shape)
        values, counts = encoder.embed_whole(texts, _UNITS[self.scope])
        out.write("values", values)
        note_unknown_scripts(encoder.pieces(texts), encoder.tokenizer, out)
        if longer := sum(count > 1 for count in counts):
            out.quality["texts_in_parts"] = longer
        return counts


class TextEmbedding(_OfTexts):
    """A model of texts, of a session's utterances."""

    version = 3  # captions that name their speakers in their text
    inputs = (Input.TRANSCRIPT, Input.VIDEO)
    needs_frames = False

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Write the utterances' embeddings, their times and speakers."""
        clock = read_clock_if_any(source, out)
        transcript = read_speech(source, clock, self.common.transcript, out)
        utterances = transcript.utterances
        start, end = np.array([u.start_s for u in utterances]), np.array([u.end_s for u in utterances])
        speakers, labels = speaker_labels([u.speaker for u in utterances], source.speakers)
        self.embed([u.text for u in utterances], out)
        out.write("start", start)
        out.write("end", end)
        out.write("speaker", np.array(speakers, np.int16))
        out.attributes["speakers"] = labels
        if clock:
            out.write("frame_utterance", clock.rows_at(start, end))
            note_after_end(start, clock, out)


class StoryTextEmbedding(_OfTexts):
    """A model of texts, of the study's stories."""

    scope = Scope.STORIES
    inputs: tuple[Any, ...] = (Input.STORIES,)
    after = ()

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Write the stories' embeddings."""
        stories = read_stories(source)
        out.attributes["chunks"] = self.embed([story.text for story in stories], out)
        out.attributes["story_ids"] = [story.story_id for story in stories]
