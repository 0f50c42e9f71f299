"""Putting the deployments of deploy/ on a Prefect server, with the automations that belong to them.

Run again, it changes them in place: nothing is there twice.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from flows.server.configured_server import ServerError, check_server, configured_url

if TYPE_CHECKING:
    from prefect.events.schemas.automations import AutomationCore

_DEPLOYMENTS = "prefect.yaml"
_DEAD_RUNS = "automations/dead-runs.yaml"
_ALERTS = "automations/alerts.yaml"


class DeployError(Exception):
    """The deployments cannot be made; the message says why."""


def deploy(folder: Path, alerts_block: str | None) -> list[str]:
    """Make or change the deployments and the automations of a folder; gives the automations' names.

    Args:
        alerts_block: id of the notification block that alerts go through; None leaves the alerts as they are.

    Raises:
        DeployError: a variable is not set, a file cannot be read, or the server refuses or is not there. Nothing was
            changed unless the server refused a deployment.
    """
    from httpx import HTTPError
    from pydantic import ValidationError

    files = [_DEAD_RUNS, *([_ALERTS] if alerts_block else [])]
    try:
        _check_variables((folder / _DEPLOYMENTS).read_text(encoding="utf-8"))
        _check_files()
        automations = [it for file in files for it in _automations(folder / file, alerts_block or "")]
        check_server(configured_url(), needs_it=True)
        _make_deployments(folder / _DEPLOYMENTS)
        for automation in automations:
            _make(automation)
    except ServerError as error:
        raise DeployError(str(error)) from None
    except OSError as error:
        raise DeployError(f"{error.filename or folder}: {error.strerror or error}") from None
    except (yaml.YAMLError, KeyError, ValidationError) as error:
        raise DeployError(f"{folder}: is not what deploy/ of the sources holds: {error}") from None
    except HTTPError as error:
        raise DeployError(f"the Prefect server does not take the automations: {error}") from None
    return [automation.name for automation in automations]


def _check_variables(text: str) -> None:
    """Prefect takes a variable that is not set for an empty text."""
    needed = {"PREFECT_API_URL", *re.findall(r"{{ \$(\w+) }}", text)}
    if missing := sorted(name for name in needed if not os.environ.get(name)):
        raise DeployError(f"not set: {', '.join(missing)} (docs/operations.md, 'Schedule')")


def _check_files() -> None:
    """Refuse a configuration and a cluster that no night could read."""
    for name in ("STORYFRAMES_CONFIG", "STORYFRAMES_CLUSTER"):
        path = os.environ.get(name, "")
        if not path or (name == "STORYFRAMES_CLUSTER" and "://" in path):
            continue
        if not Path(path).is_absolute():
            raise DeployError(f"{name}={path}: must be an absolute path, as the worker has another current folder")
        if not (Path(path).is_file() and os.access(path, os.R_OK)):
            raise DeployError(f"{name}={path}: is not a file that can be read here; it has this path on the worker too")


def _automations(file: Path, alerts_block: str) -> list[AutomationCore]:
    from prefect.events.schemas.automations import AutomationCore

    text = file.read_text(encoding="utf-8").replace("BLOCK_ID", alerts_block)
    return [AutomationCore.model_validate(it) for it in yaml.safe_load(text)["automations"]]


def _make_deployments(file: Path) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise DeployError(f"prefect deploy ended with {done.returncode}:\n{done.stdout.strip()[-1500:]}")


def _make(automation: AutomationCore) -> None:
    """Make it, or change what is there under its name, if it differs.

    A change makes the server forget which runs had given a sign of life: one that is dead by then is ended by hand.
    """
    from prefect.client.orchestration import get_client
    from prefect.events.schemas.automations import AutomationCore

    with get_client(sync_client=True) as client:
        asked = {"automations": {"name": {"any_": [automation.name]}}}
        automations = client.request("POST", "/automations/filter", json=asked).raise_for_status().json()
        if not automations:
            client.create_automation(automation)
            return
        oldest, *others = sorted(automations, key=lambda it: str(it["created"]))
        if AutomationCore.model_validate(oldest).model_dump() != automation.model_dump():
            body = automation.model_dump(mode="json", exclude_unset=True)  # others are refused
            client.request("PUT", "/automations/{id}", path_params={"id": oldest["id"]}, json=body).raise_for_status()
        for another in others:  # of the days when each run of a command made one more
            client.delete_automation(another["id"])
