"""light: a command, a section and a page of the report about brightness; a format of exports, a reader of labels."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import typer
from pydantic import Field

from flows import load_settings
from flows.cli import ConfigOption, StoreArgument, console, usage_errors
from storyframes import FeatureStore
from storyframes.store import Table
from storyframes_report import ReportContext, ReportPage, ReportTable
from tasks import StrictSettings


class LightSettings(StrictSettings):
    """``[light]``: a frame is dark whose brightness is below ``dark_below``."""

    dark_below: float = Field(default=40.0, ge=0, le=255)


def dark_shares(store: FeatureStore, settings: LightSettings) -> dict[str, float]:
    """By session, the share of dark frames."""
    sessions = [session for session in store.sessions if "brightness" in store.features(session)]
    values = {session: store.read(session, "brightness")[:, 0] for session in sessions}
    return {session: float(np.mean(brightness < settings.dark_below)) for session, brightness in values.items()}


light = typer.Typer(help="Measure how light recordings are.", rich_help_panel="Analyse", no_args_is_help=True)


@light.callback()
def light_commands() -> None:
    """Typer runs a single command without its name; this callback prevents it."""


@light.command()
def dark(store: StoreArgument, config: ConfigOption = None) -> None:
    """Show the share of dark frames of each session."""
    with usage_errors():
        settings = load_settings(config).sections["light"]
        for session, share in dark_shares(FeatureStore(store), settings).items():
            console().print(f"{session} {share:.2f}", markup=False)


def light_page(context: ReportContext) -> ReportPage | None:
    """The report's page about light; None where no session has the feature."""
    shares = dark_shares(context.store, context.sections["light"])
    table = ReportTable("Dark frames", ("session", "share"), [(name, f"{share:.2f}") for name, share in shares.items()])
    return ReportPage("Light", ["Sessions with many dark frames are hard to see faces in.", table]) if shares else None


def write_lines(table: Table, path: Path) -> None:
    """`<session>/<feature>.jsonl` has a JSON object for each row; what is missing is null."""
    with path.with_name(f"{path.name}.jsonl").open("w", encoding="utf-8") as file:
        for block in table.blocks():
            rows = pd.DataFrame(table.named(block)).astype(object)
            file.writelines(f"{json.dumps(row)}\n" for row in rows.where(rows.notna(), None).to_dict("records"))


def read_lamps(path: Path) -> list[dict[str, object]]:
    """The labels of a `.lamps` file: on each line when a lamp went on and off, in seconds, and which lamp."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"tier": "lamp", "value": name, "start_s": on, "end_s": off} for on, off, name in rows]
