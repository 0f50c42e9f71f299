"""The Prefect server that is configured: what names it, and whether it can be used."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

QUIET = {
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
# What never goes through a proxy, whatever http_proxy says.
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT_S = 10


class ServerError(Exception):
    """There is no Prefect server to use; the message says why and what to do."""


def configured_url() -> str:
    """The URL of the Prefect server that is configured; empty where there is none.

    Raises:
        ServerError: Prefect's settings cannot be used.
    """
    try:
        from prefect.settings import PREFECT_API_URL

        return PREFECT_API_URL.value() or ""
    except ValueError as error:  # pydantic's
        raise ServerError(f"Prefect's settings cannot be used: {str(error).splitlines()[-2].strip()}") from None


def is_chosen() -> bool:
    """Whether the environment of this command names the server, not a profile of Prefect or a file."""
    return bool(os.environ.get("PREFECT_API_URL"))


def _named_by() -> str:
    """What names the server."""
    from prefect.context import get_settings_context

    if is_chosen():
        return "PREFECT_API_URL"
    profile = get_settings_context().profile
    if any(setting.name == "PREFECT_API_URL" for setting in profile.settings):
        return f"Prefect's profile {profile.name!r} ({profile.source})"
    return "a file with Prefect's settings here (.env, prefect.toml or pyproject.toml)"


def _cure(needs_it: bool) -> str:
    """What else can be done, as the end of a sentence."""
    if needs_it:
        return "the deployments need one"
    unset = "unset PREFECT_API_URL" if is_chosen() else "set PREFECT_API_URL= (to nothing)"
    return f"or {unset}, and the command starts a server of its own"


def check_server(url: str, *, needs_it: bool = False) -> None:
    """Ask the server that is configured who it is.

    Args:
        needs_it: a server that the command starts would not do.

    Raises:
        ServerError: it cannot be reached, does not let us in, is no Prefect server or one of another version.
    """
    import httpx
    from prefect.client.base import ServerType
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    shown, named_by, cure = without_password(url), _named_by(), _cure(needs_it)
    named = f"{shown}, which {named_by} names,"
    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client({"timeout": _TIMEOUT_S}, sync_client=True) as client,
        ):
            if client.server_type is ServerType.CLOUD:  # always of a version that fits
                client.hello()
                return
            version = client.api_version()
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ServerError(
                f"the Prefect server at {named} does not let us in ({status}): set PREFECT_API_AUTH_STRING (or "
                f"PREFECT_API_KEY) to its password, {cure}"
            ) from None
        if status >= 500:
            raise ServerError(f"the Prefect server at {named} does not work ({status}): mend it, {cure}") from None
        raise ServerError(f"{shown} is no Prefect server's API ({status}): correct {named_by}, {cure}") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        why = str(error) or type(error).__name__
        raise ServerError(
            f"there is no Prefect server at {shown} ({why}): start it, correct {named_by}, {cure}"
        ) from None
    except ValueError:  # an answer, but not JSON: the UI's page, another program's server
        version = None
    _check_version(shown, version, named_by, cure)


def _check_version(shown: str, version: object, named_by: str, cure: str) -> None:
    import prefect
    from packaging.version import InvalidVersion, Version

    try:
        server, here = Version(str(version)), Version(prefect.__version__)
    except InvalidVersion:
        raise ServerError(
            f"{shown} answers, but is no Prefect server's API (it ends in /api): correct {named_by}, {cure}"
        ) from None
    # What Prefect asks for: the same major version, and a server not older than its clients. Patches fit each other.
    if server.major != here.major or server.release[:2] < here.release[:2]:
        raise ServerError(
            f"the Prefect server at {shown} has version {server}, here is {here}: install the same on both, {cure}"
        )


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1]))


def is_server_configured() -> bool:
    """Whether Prefect's environment, profile or files name a server, by Prefect itself.

    Importing it takes a second, so it is asked only where one of them may.
    """
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    places = {
        ".env": "prefect_",
        "prefect.toml": "",
        "pyproject.toml": "[tool.prefect",
        os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml": "prefect_api_url",
    }
    if not os.environ.get("PREFECT_API_URL") and not any(_has(Path(path), text) for path, text in places.items()):
        return False
    try:
        from prefect.settings import PREFECT_API_URL

        return bool(PREFECT_API_URL.value())
    except ValueError:  # that its settings cannot be used is said where the server is asked
        return True


def _has(file: Path, text: str) -> bool:
    try:
        return text in file.read_text(errors="replace").lower()
    except OSError:
        return False


def spare_loopback() -> None:
    """Keep what goes to this machine from a configured proxy, in this process and in all that it starts."""
    listed = [host for name in ("no_proxy", "NO_PROXY") for host in os.environ.get(name, "").split(",")]
    hosts = ",".join(dict.fromkeys(host for host in (*map(str.strip, listed), *_LOOPBACK) if host))
    os.environ.update(no_proxy=hosts, NO_PROXY=hosts)
