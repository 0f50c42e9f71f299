"""Options of export and of release; this module is light, since storyframes --help imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyOption = Annotated[
    Path | None,
    typer.Option("--study", help="The study whose tables say which sessions it has; else the store's record of them."),
]
