"""Somebody else on the machine or on the network: tries every port of a run.

``python intruder.py FOLDER USER HOST:PORT…`` speaks Dask's protocol and HTTP to each port, first in plain text, then
over TLS with certificates of its own, and prints what it was told. Whatever it gets to run writes a file into FOLDER.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import os
import sys
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # it has no type hints
from distributed.comm import connect
from distributed.security import Security

PATHS = ("/", "/health", "/info", "/info/main/workers.html", "/json/identity.json", "/metrics", "/sitemap.json",
         "/api/health", "/api/ready", "/api/admin/settings", "/api/admin/version", "/docs", "/openapi.json",
         "/api/openapi.json", "/ui-settings")  # fmt: skip
OPERATIONS = ("run", "run_function")  # a worker's and a nanny's, a scheduler's


def leave_a_trace(path: str) -> str:
    Path(path).write_text("was here")
    return "was here"


async def ask(address: str, message: dict[str, Any], options: dict[str, Any]) -> str:
    """The answer of a server of Dask's."""
    comm = await connect(address, timeout=2, **options)
    try:
        await comm.write(message)
        return str(await comm.read())[:200]
    finally:
        comm.abort()


async def dask(folder: Path, place: str, scheme: str) -> dict[str, Any]:
    """What a server of Dask's at this place says to a stranger."""
    options = Security.temporary().get_connection_args("client") if scheme == "tls" else {}
    told: dict[str, Any] = {}
    for operation in OPERATIONS:
        function = functools.partial(leave_a_trace, str(folder / f"{place.replace(':', '-')}-{operation}"))
        message = {"op": operation, "function": cloudpickle.dumps(function), "args": b"", "kwargs": b"", "reply": True}
        message |= {"wait": True, "args": cloudpickle.dumps(()), "kwargs": cloudpickle.dumps({})}
        try:
            told[f"{scheme} {operation}"] = await asyncio.wait_for(ask(f"{scheme}://{place}", message, options), 5)
        except Exception as error:
            told[f"{scheme} {operation}"] = f"refused: {type(error).__name__}"
    return told


def web(place: str) -> dict[str, Any]:
    """The paths that a web server at this place answers to, with what."""
    told: dict[str, Any] = {}
    for path in PATHS:
        connection = http.client.HTTPConnection(place, timeout=3)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status not in (401, 404):
                told[f"GET {path}"] = f"{answer.status} {answer.read(200)!r}"
        except (OSError, http.client.HTTPException):
            break  # no web server
        finally:
            connection.close()
    return told


async def attack(folder: Path, places: list[str]) -> dict[str, dict[str, Any]]:
    told = await asyncio.gather(*(dask(folder, place, scheme) for place in places for scheme in ("tcp", "tls")))
    schemes = [place for place in places for _ in ("tcp", "tls")]
    result: dict[str, dict[str, Any]] = {place: {} for place in places}
    for place, answers in zip(schemes, told, strict=True):
        result[place] |= answers
    pages = await asyncio.gather(*(asyncio.to_thread(web, place) for place in places))
    for place, answers in zip(places, pages, strict=True):
        result[place] |= answers
    return result


def main() -> None:
    folder, user, *places = sys.argv[1:]
    # Python and its packages may lie where that user cannot read; all that is needed has been imported.
    os.setgroups([])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
    told = asyncio.run(attack(Path(folder), places))
    sys.stdout.write(json.dumps({"user": os.geteuid(), "told": told}))


if __name__ == "__main__":
    main()
