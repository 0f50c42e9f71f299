"""Texts as features: a row for each utterance or word of a session, or for each story of the study."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import FEATURES, STORY_FEATURES, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import Cost, ExtractionError, Extractor, Input, S, Scope, Source
from tasks.extractors.embed.extractor import Embedding, describe_output, layer_numbers
from tasks.extractors.embed.local_model import LocalModel, check_memory
from tasks.extractors.frames import read_clock_if_any
from tasks.extractors.settings import Device
from tasks.extractors.text.model import TextPool, TextSettings, text_shape
from tasks.extractors.text.speech import (
    note_after_end,
    note_confidence,
    note_interpolation,
    read_speech,
    read_stories,
    speaker_labels,
)
from tasks.study.transcript import Utterance, Word

if TYPE_CHECKING:
    from tasks.extractors.text.encoder import TextEncoder

_UNKNOWN_SHARE = 0.25  # of a text's pieces, above which it is in another script: an emoji or a foreign name is not
_MARKS = 2  # of beginning and end, which every text has


class TextExtractor(Extractor[S]):
    """A feature with a row for each utterance of a session, or for each of its words, or for each story.

    A subclass says how texts become rows; this class reads them and stores when and by whom they were said.

    Attributes:
        of_words: a row for each word, not for each utterance.
    """

    inputs: tuple[str, ...] = (Input.TRANSCRIPT, Input.VIDEO)
    needs_frames: ClassVar[bool] = False
    of_words: ClassVar[bool] = False

    def transcript_settings(self) -> Mapping[str, Any]:
        return self.common.transcript.model_dump() if self.of_words else super().transcript_settings()

    @abstractmethod
    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        """Write the rows of ``texts``, in their order, and note what users of the values must know.

        Raises:
            ExtractionError: the model is missing, or cannot make rows of them.
        """

    def extract(self, source: Source, out: FeatureWriter) -> None:
        if self.scope is Scope.STORIES:
            stories = read_stories(source)
            self.write_rows([story.text for story in stories], out)
            out.attributes["story_ids"] = [story.story_id for story in stories]
        else:
            self._extract_session(source, out)

    def _extract_session(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        transcript = read_speech(source, clock, self.common, out)
        names = {**transcript.pseudonyms, **source.speakers}
        indices, labels = speaker_labels([utterance.speaker for utterance in transcript.utterances], names)
        speakers = np.array(indices, np.int16)
        words = transcript.words()
        spans: Sequence[Utterance | Word] = words if self.of_words else transcript.utterances
        start, end = np.array([span.start_s for span in spans]), np.array([span.end_s for span in spans])
        self.write_rows([span.text for span in spans], out)
        out.write("start", start)
        out.write("end", end)
        out.write("speaker", speakers[transcript.utterances_of_words()] if self.of_words else speakers)
        out.attributes["speakers"] = labels
        if clock:
            out.write("frame_word" if self.of_words else "frame_utterance", clock.rows_at(start, end))
            note_after_end(start, clock, out)
        if self.of_words:
            note_interpolation(words, out)
            confidence = np.array([word.confidence for word in words], np.float32)
            out.write("confidence", confidence)
            note_confidence(confidence, transcript, self.common.transcript, out)


class TextEmbedding(Embedding[TextSettings], TextExtractor[TextSettings]):
    """A model of texts, of a session's utterances."""

    Settings = TextSettings
    version = 4  # what is not speech, and repeated lines of captions, are no text
    libraries = ("sentence-transformers", "transformers", "torch")
    row_name: ClassVar[str] = "utterance"

    @property
    def cost(self) -> Cost:
        return Cost(0.005, 5.0)

    @property
    def condition(self) -> str:
        """That the model does not fit into this machine's memory; of a GPU only the worker that has it can say so."""
        try:
            if self.settings.device is Device.CPU:
                check_memory(self.model, self.settings)
        except ExtractionError as error:
            return str(error)
        return ""

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """The arrays of sbert, whose rows and times it has, with the model's own width."""
        pattern = (FEATURES if self.scope is Scope.SESSION else STORY_FEATURES)["sbert"]
        shape = text_shape(model, self.settings)
        pools = self.settings.gives_hidden and self.settings.pool is not TextPool.MODEL
        layers = layer_numbers(self.settings, shape.depth) if pools else ()
        columns, groups, units = self.columns(shape.width, layers or (-1,))
        unit = ", unit length" if shape.unit_length else ""
        stored = describe_output(self.settings, f"embedding{unit}")
        values = replace(
            pattern.arrays["values"],
            about=f"the {self.row_name}'s {stored}; the mean of its parts where it is longer than is read",
            shape=(len(columns),),
            columns=columns,
            units=units,
        )
        output = describe_output(self.settings, f"pool {self.settings.pool}")
        about = f"texts by {model.origin}:{model.name}, {output}"
        return FeatureSpec(self.name, about, {**pattern.arrays, "values": values}, groups)

    def write_rows(self, texts: Sequence[str], out: FeatureWriter) -> None:
        """Embed every text whole: one that is longer than the model reads is the mean of its parts."""
        from tasks.extractors.text.encoder import open_encoder

        self.note_model(out)
        encoder = open_encoder(self.model, self.settings, self.head)
        values, counts = encoder.embed_whole(texts, self.row_name)
        out.write("values", values)
        note_unknown_scripts(encoder, texts, out)
        if longer := sum(count > 1 for count in counts):
            out.quality["texts_in_parts"] = longer
        if self.scope is Scope.STORIES:
            out.attributes["chunks"] = counts


class StoryTextEmbedding(TextEmbedding):
    """A model of texts, of the study's stories."""

    version = 2  # a text's values do not depend on the texts beside it
    row_name = "story"
    scope = Scope.STORIES
    inputs = (Input.STORIES,)
    after = ()


def note_unknown_scripts(encoder: TextEncoder, texts: Sequence[str], out: FeatureWriter) -> None:
    """Note how many texts the model mostly does not know: their embeddings are of the few pieces that it does."""
    unknown = encoder.tokenizer.unk_token_id
    shares = [pieces.count(unknown) / max(len(pieces) - _MARKS, 1) for pieces in encoder.pieces(texts)]
    if strange := sum(share > _UNKNOWN_SHARE for share in shares):
        out.caveat(Caveat.UNKNOWN_SCRIPT)
        out.quality["texts_unknown"] = strange
