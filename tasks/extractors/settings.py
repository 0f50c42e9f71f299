"""The sections of the configuration that extractors read: the base of each one's own, and two that several share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tasks.strict_settings import StrictSettings, anchor_paths


class ExtractorSettings(StrictSettings):
    """Base of every extractor's section of the configuration; an unknown key is an error.

    The methods are what the rest of the program may ask of any section, whatever is in it.
    """

    def resolved(self) -> Self:
        """The same with what depends on this machine settled. Planning does it once, so that all workers do alike."""
        return self

    def for_measuring(self) -> Self:
        """The same for measuring what extraction costs: what is not here may be replaced by what costs as much."""
        return self

    def with_cpus(self, cpus: int) -> Self:
        """The same for ``cpus`` processors, where it can use them and its user has not said how many it may."""
        return self

    @classmethod
    def anchored(cls, section: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The section as it stands in a file, with relative paths made absolute.

        Args:
            section: what the file says, unchecked.
            folder: of the file.
        """
        return anchor_paths(cls, section, folder)


class RecordingSettings(ExtractorSettings):
    """``[recording]``: how strictly a video is read.

    Attributes:
        allow_truncated: use what decodes of a video whose header promises more; a caveat of every feature.
    """

    allow_truncated: bool = False


class TranscriptSettings(ExtractorSettings):
    """``[transcript]``: how strictly a transcript is read.

    Attributes:
        allow_malformed_cues: leave out what cannot be read of a transcript (a cue whose times are no times, a word
            beyond its utterance, an end without a start) instead of failing; a caveat of what is made of it.
        speaker_prefixes: whether "Name: " at the beginning of a caption is its speaker and no text; None judges by the
            whole file, and what stays uncertain is a caveat.
    """

    allow_malformed_cues: bool = False
    speaker_prefixes: bool | None = None


@dataclass(frozen=True)
class CommonSettings:
    """The sections that several extractors share."""

    recording: RecordingSettings = field(default_factory=RecordingSettings)
    transcript: TranscriptSettings = field(default_factory=TranscriptSettings)
