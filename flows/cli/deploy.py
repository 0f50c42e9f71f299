"""``storyframes deploy``: the deployments of a study on a Prefect server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli import terminal


def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder deploy of the sources: prefect.yaml and automations.")],
    alerts: Annotated[
        str | None, typer.Option(metavar="BLOCK_ID", help="Also the alerts, through this notification block.")
    ] = None,
) -> None:
    """Make or change the deployments on the Prefect server, and the automation that ends dead runs."""
    from flows.runs.deployments import DeployError
    from flows.runs.deployments import deploy as put

    try:
        names = put(folder, alerts)
    except DeployError as error:
        terminal.fail(str(error), 2)
    terminal.error_console().print(f"the deployments are there, and: {', '.join(names)}")
