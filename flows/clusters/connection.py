"""A Dask scheduler: how one is let in, which resources its workers have, and waiting for those that units need."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flows.clusters.settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm
from tasks.extractors.settings import LEAST_GPU_SHARE
from tasks.planning.units import price_of

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

    from tasks.extract import ExtractionUnit

Needs = Mapping[str, float]
_SETTINGS = {"CPU": "cpus", "GPU": "device"}  # of a feature's section, by what it asks for
Cluster = LocalCluster | ExistingScheduler | Slurm | Kubernetes
SAY_EVERY_S = 60.0


class ClusterError(Exception):
    """The work cannot be done on this cluster; the message says what is requested and what is available."""


class SchedulerLostError(Exception):
    """The scheduler ended, or cannot be reached any more, while it had work."""


def check_needs(needs: Sequence[Needs], workers: Sequence[Needs]) -> None:
    """Refuse tasks that no worker, there or to come, can do: Dask would let them wait in silence.

    Raises:
        ClusterError: with the first need that cannot be met.
    """
    for need in needs:
        if not any(all(worker.get(name, 0) >= amount for name, amount in need.items()) for worker in workers):
            needed = ", ".join(_amount(name, amount) for name, amount in need.items())
            offered = "; ".join(sorted({_show(worker) for worker in workers})) or "no worker"
            raise ClusterError(f"a feature asks for {needed}, but no worker has that (there is: {offered})")


def check_units(units: Iterable[ExtractionUnit], cluster: Cluster) -> None:
    """Refuse what no worker of the cluster can do, before anything is begun; a running scheduler's are asked later.

    Raises:
        ClusterError: with the feature, what it asks for, and the settings that say so.
    """
    match cluster:
        case LocalCluster():
            most, of_cluster = {"CPU": cluster.processors, "GPU": cluster.gpus}, {"CPU": "cpus", "GPU": "gpus"}
        case Slurm() | Kubernetes():
            most, of_cluster = {"CPU": cluster.cpu.cpus, "GPU": int(bool(cluster.gpu))}, {"CPU": "cpu", "GPU": "gpu"}
        case ExistingScheduler():
            return
    for unit in units:
        for resource, amount in unit.needs.items():
            if amount > most.get(resource, 0):
                needs = {
                    feature: price_of([feature], track.settings, track.session_id).needs
                    for track in unit.tracks
                    for feature in track.features
                }
                feature = max(needs, key=lambda name: needs[name].get(resource, 0))
                setting = f"[{feature}] {_SETTINGS.get(resource, resource)}"
                raise ClusterError(
                    f"{feature} asks for {_amount(resource, amount)} ({setting}), but no worker has that (there is: "
                    f"{_show(most)}, by [cluster] {of_cluster.get(resource, resource)}): change one of the two, or "
                    f"leave {feature} out of the features"
                )


def _amount(name: str, amount: float) -> str:
    return "a GPU" if (name, amount) == ("GPU", LEAST_GPU_SHARE) else f"{amount:g} {name}"


def _show(worker: Needs) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in worker.items()) or "a worker that declares no resources"


@dataclass(frozen=True)
class Connection:
    """A scheduler, and what one needs to be let in."""

    address: str  # ``tls://host:port``
    security: Security | None = None  # the certificates; without them a scheduler that lets everybody in
    gave_up: list[str] = field(default_factory=list, compare=False)  # why its cluster ended it, once it has

    @property
    def options(self) -> dict[str, Any]:
        """What a Dask client is made with, besides the address."""
        return {"security": self.security, "set_as_default": False}

    def client(self, **options: Any) -> Client:
        """A client of it, to be closed by the caller.

        Raises:
            OSError, ValueError: no scheduler answers there, or not with these certificates.
        """
        from distributed import Client

        return Client(self.address, **self.options, **options)


def wait_for_workers(
    connection: Connection,
    needs: Sequence[Needs],
    wait_s: float,
    *,
    why: Callable[[], str] = lambda: "",
    warn: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait until the scheduler has a worker for every need.

    Args:
        wait_s: seconds until it is an error that there is none.
        why: says what the workers that are missing wait for.
        warn: called every minute with what is missing, and why.

    Raises:
        ClusterError: it cannot be reached, or has none in time.
    """
    from distributed.comm.core import FatalCommClosedError

    began = reported = time.monotonic()
    try:
        client = connection.client(timeout=min(max(wait_s, 1), 30))
    except FatalCommClosedError:
        raise ClusterError(
            f"{connection.address} does not know these certificates: are they of another cluster?"
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"there is no Dask scheduler at {connection.address} ({type(error).__name__})") from None
    with client:
        while True:
            try:
                if connection.gave_up:
                    raise ClusterError("; ".join(connection.gave_up))
                workers = client.scheduler_info(n_workers=-1)["workers"].values()
            except (OSError, KeyError):  # it ended; a client that has given it up knows of no workers
                gone = f"the Dask scheduler at {connection.address} is not reached any more"
                raise ClusterError("; ".join(connection.gave_up) or gone) from None
            try:
                check_needs(needs, [worker.get("resources", {}) for worker in workers])
            except ClusterError as error:
                now = time.monotonic()
                if now > began + wait_s:
                    raise ClusterError(f"{error}{why()}") from None
                if now > reported + SAY_EVERY_S:
                    reported = now
                    warn(f"waiting for workers since {now - began:.0f} s: {error}{why()}")
                time.sleep(0.5)
            else:
                return


def resources_of(cluster: Cluster, connection: Connection, needs: Sequence[Needs] = (), sharing: int = 1) -> Needs:
    """What all its workers have together: those that it is to have, or those of a scheduler that is there already.

    Of GPUs that is what so many units at once take: each process with a GPU does one, or one in each of its threads.

    Args:
        needs: of the units.
        sharing: how many processes of this run share each GPU.
    """
    share = max((need.get("GPU", 0) for need in needs), default=0) or 1
    match cluster:
        case LocalCluster():
            return {"CPU": cluster.processors, "GPU": cluster.gpus * sharing * share}
        case Slurm() | Kubernetes():
            gpus = cluster.gpu.count if cluster.gpu else 0
            return {"CPU": cluster.cpu.count * cluster.cpu.cpus, "GPU": gpus * sharing * share}
    with connection.client() as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    in_all: Counter[str] = Counter()
    for worker in workers:
        resources = dict(worker.get("resources", {}))
        if "GPU" in resources:
            resources["GPU"] = min(worker.get("nthreads", 1), int(resources["GPU"] / share + 1e-9)) * share
        in_all.update(resources)
    return in_all


def at_the_same_time(resources: Needs, needs: Needs) -> int:
    """How many units with these needs that much does at once, at least one."""
    return max(1, int(min((resources.get(name, 0) // amount for name, amount in needs.items() if amount), default=1)))


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
