"""Which extractors there are. A new one is a file in this folder and a line in each of these two places."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from storyframes.features import FEATURES, STORIES
from tasks.extractors.base import Extractor
from tasks.extractors.dope.extractor import Dope
from tasks.extractors.dope.settings import DopeSettings
from tasks.extractors.frames import Frames, RecordingSettings
from tasks.extractors.glove.extractor import Glove, GloveSettings, StoryGlove
from tasks.extractors.openface.extractor import OpenFace, OpenFaceSettings
from tasks.extractors.opensmile.extractor import OpenSmile
from tasks.extractors.opensmile.settings import OpenSmileSettings
from tasks.extractors.resnet50.extractor import ResNet50
from tasks.extractors.resnet50.settings import ResNet50Settings
from tasks.extractors.sbert import Sbert, SbertSettings, StorySbert
from tasks.extractors.speech import TranscriptSettings

DEFAULT_FEATURES = ("frames", "openface", "resnet50", "opensmile", "glove", "sbert")


class ExtractorsSettings(BaseModel):
    """Every extractor's section of the configuration.

    Attributes:
        features: what is extracted where nothing else is asked for. ``dope`` is not among them by default: its model
            has to be got from its authors first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    features: tuple[str, ...] = DEFAULT_FEATURES
    recording: RecordingSettings = Field(default_factory=RecordingSettings)
    transcript: TranscriptSettings = Field(default_factory=TranscriptSettings)
    openface: OpenFaceSettings = Field(default_factory=OpenFaceSettings)
    resnet50: ResNet50Settings = Field(default_factory=ResNet50Settings)
    dope: DopeSettings = Field(default_factory=DopeSettings)
    opensmile: OpenSmileSettings = Field(default_factory=OpenSmileSettings)
    glove: GloveSettings = Field(default_factory=GloveSettings)
    sbert: SbertSettings = Field(default_factory=SbertSettings)

    def resolved(self) -> Self:
        """The same with what depends on the machine settled, so that all workers do alike."""
        return self.model_copy(update={"resnet50": self.resnet50.resolved()})

    @field_validator("features")
    @classmethod
    def _exist(cls, features: tuple[str, ...]) -> tuple[str, ...]:
        for feature in features:
            if feature not in FEATURES:
                raise ValueError(f"there is no feature {feature!r}; there are {', '.join(FEATURES)}")
        return features


def build_extractors(settings: ExtractorsSettings, session_id: str) -> dict[str, Extractor]:
    """The extractors of a session (or of the stories), by feature, in the order in which they run."""
    if session_id == STORIES:
        stories: tuple[Extractor, ...] = (StoryGlove(settings.glove), StorySbert(settings.sbert))
        return {extractor.name: extractor for extractor in stories}
    recording = settings.recording
    extractors: tuple[Extractor, ...] = (
        Frames(recording),  # first: all the others need the session's clock
        OpenFace(settings.openface, recording),
        ResNet50(settings.resnet50, recording),
        Dope(settings.dope, recording),
        OpenSmile(settings.opensmile, recording),
        Glove(settings.glove, recording, settings.transcript),
        Sbert(settings.sbert, recording, settings.transcript),
    )
    return {extractor.name: extractor for extractor in extractors}
