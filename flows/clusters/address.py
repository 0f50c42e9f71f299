"""A Dask scheduler that is running already, at an address, with its certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.clusters.connection import Connection, wait_for_workers
from flows.clusters.needs import ClusterError, Needs
from flows.clusters.settings import ExistingScheduler

if TYPE_CHECKING:
    from distributed.security import Security


@contextmanager
def existing_scheduler(settings: ExistingScheduler, needs: Sequence[Needs]) -> Iterator[Connection]:
    connection = Connection(settings.address, _certificates(settings))
    wait_for_workers(connection, needs, settings.wait_s)
    yield connection


def _certificates(settings: ExistingScheduler) -> Security | None:
    from distributed.security import Security

    if settings.insecure and settings.address.startswith("tcp://"):
        return None
    try:
        if settings.tls is None:
            security = Security(require_encryption=True)
        else:
            mode = settings.tls.key.stat().st_mode
            if mode & 0o007:
                raise ClusterError(f"{settings.tls.key}: everybody may read or change this private key: chmod 600")
            ca, cert, key = (str(path) for path in (settings.tls.ca, settings.tls.cert, settings.tls.key))
            security = Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:  # ssl.SSLError is one
        files = settings.tls or "of Dask's own configuration"
        raise ClusterError(f"the certificates for {settings.address} cannot be used ({error}): {files}") from None
    if context is None:
        raise ClusterError(
            f"there are no certificates for {settings.address}: name them under 'tls' in the cluster's file"
        )
    return security
