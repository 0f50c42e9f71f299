"""Everything that is looked at, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from flows.doctor import install, machine
from flows.doctor.findings import Finding, State
from storyframes.installation import install_line


def examine(features: str | None = None, config: Path | None = None) -> list[Finding]:
    """What is here, and what is not; works without the pipeline, and says then that it is not here.

    Args:
        features: a feature store to look at as well.
        config: whose features have to work.

    Raises:
        SettingsError: the configuration cannot be used.
    """
    found = [*install.look(), *machine.look(features)]
    found += _of_the_pipeline(lambda: _extraction(config), "extraction", asked=config is not None)
    found += _of_the_pipeline(_prefect, "Prefect", asked=False)
    return [finding.without_home() for finding in found]


def _extraction(config: Path | None) -> Iterator[Finding]:
    from flows.doctor import extraction
    from flows.settings import load_settings

    return extraction.look(load_settings(config), asked=config is not None)


def _prefect() -> Iterator[Finding]:
    from flows.doctor import prefect_server

    return prefect_server.look()


def _of_the_pipeline(look: Callable[[], Iterable[Finding]], about: str, *, asked: bool) -> list[Finding]:
    try:
        return list(look())
    except ModuleNotFoundError as error:
        state = State.FAULT if asked else State.GAP
        what = f"the pipeline is not installed ({error.name} is not there): this installation reads and keeps stores"
        return [Finding(about, state, what, f"{install_line('pipeline')}, on the machine that extracts")]
