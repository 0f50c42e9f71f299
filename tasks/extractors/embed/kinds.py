"""The kinds of ``[[embed]]`` sections that there are: of each, its settings and its extractors.

A kind is one entry of the union (its settings, told apart by ``kind``) and one of the table (its extractors: of a
session, and of the stories where it reads texts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from tasks.extractors.base import Extractor, Scope
from tasks.extractors.embed.audio.extractor import AudioEmbedding
from tasks.extractors.embed.audio.settings import AudioSettings
from tasks.extractors.embed.image.extractor import ImageEmbedding
from tasks.extractors.embed.image.settings import ImageSettings
from tasks.extractors.embed.settings import EmbedSettings, Kind
from tasks.extractors.embed.text.extractor import StoryTextEmbedding, TextEmbedding
from tasks.extractors.embed.text.settings import TextSettings

AnyEmbedSettings = Annotated[AudioSettings | ImageSettings | TextSettings, Field(discriminator="kind")]

_EXTRACTORS: Mapping[Kind, Mapping[Scope, type[Extractor[Any]]]] = {
    Kind.AUDIO: {Scope.SESSION: AudioEmbedding},
    Kind.IMAGE: {Scope.SESSION: ImageEmbedding},
    Kind.TEXT: {Scope.SESSION: TextEmbedding, Scope.STORIES: StoryTextEmbedding},
}


def embedding(section: EmbedSettings, scope: Scope) -> type[Extractor[Any]] | None:
    """The extractor that a section makes of sessions, or of the stories; None where its kind has nothing there."""
    return _EXTRACTORS[section.kind].get(scope)
