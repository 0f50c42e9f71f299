"""``storyframes doctor``: what is on this machine, what is lacking, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.terminal import ConfigOption, console, error_console, usage_errors


def doctor(
    features: Annotated[str | None, typer.Argument(help="A feature store to look at as well.")] = None,
    config: ConfigOption = None,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Say what is here (engines, models, GPU, Prefect, disks, plug-ins), and what to do about what is not.

    Nothing is downloaded, started or written. It ends with 1 where what was asked for cannot work: a feature of the
    configuration, or the feature store.
    """
    from flows.cli.tables.doctor import doctor_json, doctor_table
    from flows.doctor.examine import examine

    with usage_errors(), error_console().status("looking"):
        findings = examine(features, config)
    if json:
        print(doctor_json(findings))  # noqa: T201
    else:
        console().print(doctor_table(findings))
    if any(finding.is_fault for finding in findings):
        raise typer.Exit(1)
