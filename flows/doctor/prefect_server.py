"""Prefect's profile, and whether the server that is configured answers. Needs the pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flows.doctor.findings import Finding, State
from flows.runs.configured_server import ServerError, check_server, without_password


def look() -> Iterator[Finding]:
    """The profile and the server; where none is configured, a command starts its own."""
    os.environ.setdefault("DO_NOT_TRACK", "1")
    try:
        from prefect.context import get_settings_context
        from prefect.settings import PREFECT_API_URL

        profile, configured = get_settings_context().profile.name, PREFECT_API_URL.value()
    except ValueError as error:  # pydantic's
        why = str(error).splitlines()[0]
        yield Finding("Prefect", State.GAP, f"its settings cannot be used: {why}", "correct its profile, or PREFECT_*")
        return
    if not configured:
        what = f"profile {profile}, no server is configured; every command starts one of its own and ends it"
        yield Finding("Prefect", State.HERE, what)
        return
    where = f"profile {profile}, server {without_password(configured)}"
    try:
        check_server(configured)
    except ServerError as error:
        yield Finding("Prefect", State.GAP, f"{where}: it cannot be used", str(error))
    else:
        yield Finding("Prefect", State.HERE, f"{where} answers")
