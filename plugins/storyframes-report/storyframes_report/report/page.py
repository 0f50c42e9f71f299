"""What a plug-in's page of the report is made of, and what it gives: data, which is written as HTML elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from storyframes import FeatureStore
from tasks.study import Study

if TYPE_CHECKING:
    from storyframes_report.report.chart import Chart  # needs plotly, which only the report has to have


@dataclass(frozen=True)
class Disclosure:
    """What of the recordings themselves goes into the pages: nothing, unless asked for."""

    text: bool = False  # the transcripts; their speakers as the feature store calls them
    video: bool = False  # thumbnails with landmarks and poses


@dataclass(frozen=True)
class ReportContext:
    """What a page may be made of.

    Attributes:
        store: the features.
        study: None where a site is made of a feature store alone.
        sections: of plug-ins in the configuration, by name, validated.
        disclosure: what of the recordings may be on the page; no word of a transcript where ``text`` is false, no
            picture where ``video`` is.
    """

    store: FeatureStore
    study: Study | None = None
    sections: Mapping[str, Any] = field(default_factory=dict)
    disclosure: Disclosure = field(default_factory=Disclosure)


@dataclass(frozen=True)
class ReportTable:
    """A table of a page; numbers are written as ``str`` writes them."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class ReportPage:
    """A page: paragraphs (text, no HTML), tables and charts, in their order."""

    title: str
    parts: Sequence[str | ReportTable | Chart]
