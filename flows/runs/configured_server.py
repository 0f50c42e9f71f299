"""A Prefect server that somebody else runs: whether it answers, accepts the credentials and has a version that fits."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

_TIMEOUT_S = 10
_OWN = "or unset PREFECT_API_URL, and the command starts a server of its own"


class ServerError(Exception):
    """There is no Prefect server to use; the message says why and what to do."""


def check_server(url: str) -> None:
    """Ask the server that is configured who it is.

    Raises:
        ServerError: it cannot be reached, does not let us in, is no Prefect server or one of another version.
    """
    import httpx
    from prefect.client.base import ServerType
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    shown = without_password(url)
    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client({"timeout": _TIMEOUT_S}, sync_client=True) as client,
        ):
            if client.server_type is ServerType.CLOUD:  # always of a version that fits
                client.hello()
                return
            there = client.api_version()
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ServerError(
                f"the Prefect server at {shown} does not let us in ({status}): set PREFECT_API_AUTH_STRING (or "
                f"PREFECT_API_KEY) to its password, {_OWN}"
            ) from None
        if status >= 500:
            raise ServerError(f"the Prefect server at {shown} does not work ({status}): mend it, {_OWN}") from None
        raise ServerError(f"{shown} is no Prefect server's API ({status}): correct PREFECT_API_URL, {_OWN}") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        why = str(error) or type(error).__name__
        raise ServerError(
            f"there is no Prefect server at {shown} ({why}): start it, correct PREFECT_API_URL, {_OWN}"
        ) from None
    except ValueError:  # an answer, but not JSON: the UI's page, somebody else's server
        there = None
    _check_version(shown, there)


def _check_version(shown: str, there: object) -> None:
    import prefect
    from packaging.version import InvalidVersion, Version

    try:
        server, here = Version(str(there)), Version(prefect.__version__)
    except InvalidVersion:
        raise ServerError(
            f"{shown} answers, but is no Prefect server's API (it ends in /api): correct PREFECT_API_URL, {_OWN}"
        ) from None
    # What Prefect asks for: the same major version, and a server not older than its clients. Patches fit each other.
    if server.major != here.major or server.release[:2] < here.release[:2]:
        raise ServerError(
            f"the Prefect server at {shown} has version {server}, here is {here}: install the same on both, {_OWN}"
        )


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1]))
