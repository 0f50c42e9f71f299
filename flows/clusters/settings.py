"""What the work runs on: this machine, a Dask scheduler that is there already, Slurm or Kubernetes.

One YAML file describes one cluster; deploy/clusters has one of each kind.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from flows.clusters.job_arrays import Scheduler, limits_time
from storyframes.config_file import ConfigFileError, check_values, read_text
from tasks.strict_settings import StrictSettings, suggest_key


class ClusterSettingsError(Exception):
    """The cluster's description cannot be used; the message lists every problem in it."""


class LocalCluster(StrictSettings):
    """This machine."""

    kind: Literal["local"] = "local"
    cpus: int | None = Field(default=None, ge=1)  # processors to use; without it all that this process may
    gpus: int = Field(default=0, ge=0)  # GPUs to use; several worker processes share each (flows/clusters/gpu_sharing)
    # of one worker process, as Dask writes it (``"4GiB"``); without it an equal share of the machine's
    memory_limit: str | None = None

    @property
    def processors(self) -> int:
        """How many there are to use."""
        return self.cpus or len(os.sched_getaffinity(0))


class Certificates(StrictSettings):
    """Files that prove to a Dask cluster that one belongs to it, PEM; relative to the file that names them."""

    ca: Path  # signed the certificates of all who belong to it
    cert: Path  # this process's certificate
    key: Path  # its private key, unencrypted; others must not be able to read it


class ExistingScheduler(StrictSettings):
    """A Dask scheduler that is running already, with workers of its own.

    Its workers must declare their resources: ``dask worker ADDRESS --nthreads 1 --resources CPU=1``, and ``GPU=1``
    alone for the worker of a GPU; of four workers that share one, ``GPU=0.25`` for each.
    """

    kind: Literal["address"]
    # ``tls://host:port``; ``tcp://host:port`` only where ``insecure`` says so
    address: str = Field(pattern=r"^(tls|tcp)://.+:\d+$")
    # the certificates for it; without them those of Dask's own configuration (``distributed.comm.tls``)
    tls: Certificates | None = None
    # use a scheduler without certificates: every client that reaches it can run code in its workers
    insecure: bool = False
    wait_s: float = Field(default=60, ge=0)  # seconds to wait for a worker that can do each kind of work

    @model_validator(mode="after")
    def _is_closed_to_others(self) -> Self:
        if self.address.startswith("tcp://") and not self.insecure:
            raise ValueError(
                f"{self.address} asks for no proof of identity, and anybody who reaches it runs code as its workers: "
                "give it certificates and use tls://, or write 'insecure: true' into the cluster's file"
            )
        if self.address.startswith("tcp://") and self.tls:
            raise ValueError(f"{self.address} does not use the certificates of 'tls': write tls://")
        return self


class WorkerShape(StrictSettings):
    """One kind of worker."""

    count: int = Field(ge=1)
    cpus: int = Field(default=1, ge=1)  # processors of each: 1, or as many as the widest tool takes ([openface] cpus)
    memory: str = "4GiB"  # of each, as Dask writes it
    directives: tuple[str, ...] = ()  # further lines for the batch script (Slurm only), e.g. ``--constraint=…``


class Slurm(StrictSettings):
    """Jobs of a Slurm cluster, one worker each (dask-jobqueue)."""

    kind: Literal["slurm"]
    queue: str | None = None  # partition
    account: str | None = None  # to be charged
    # of a job, ``HH:MM:SS``, of zero none, as Slurm has it; a job that reaches it is replaced, and its work is done
    # again. No feature of a session may take longer: it is refused where it is expected to take twice as long, and
    # fails where it had a job's time
    walltime: str = Field(default="04:00:00", pattern=r"^(\d+-)?\d+:\d{2}:\d{2}$")
    cpu: WorkerShape  # workers for processors
    gpu: WorkerShape | None = None  # jobs with one GPU each, which as many processes share as they have processors
    gpu_directive: str = "--gres=gpu:1"  # asks for one GPU
    interface: str | None = None  # network interface of the nodes that the scheduler's node reaches
    prologue: tuple[str, ...] = ()  # lines before the worker starts (``module load …``)
    log_directory: str | None = None  # of the jobs; without it Slurm's
    # on a file system that this machine and the nodes share, for the certificates of a run, which no other user can
    # read; without it a folder in the home
    shared_directory: str | None = Field(default=None, pattern=r"^/\S*$")
    python: str | None = None  # of the workers; without it this process's
    # how long a first worker may wait in the queue, and later all work that is due for any worker
    start_timeout_s: float = Field(default=3600, gt=0)

    @model_validator(mode="after")
    def _walltime_is_said_once(self) -> Self:
        gpu = self.gpu.directives if self.gpu else ()
        prologue = (line for line in self.prologue if "#SBATCH" in line)  # Slurm reads them there as well
        for directive in (*self.cpu.directives, *gpu, self.gpu_directive, *prologue):
            if limits_time(Scheduler.SLURM, directive):
                raise ValueError(f"'{directive}' cannot be a directive: set 'walltime' instead")
        return self

    @property
    def walltime_s(self) -> float:
        """The walltime in seconds; infinite where there is none."""
        days, _, clock = self.walltime.rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return 60 * (60 * (24 * int(days or 0) + hours) + minutes) + seconds or math.inf


class Kubernetes(StrictSettings):
    """Pods of a Kubernetes cluster with the Dask operator (dask-kubernetes)."""

    kind: Literal["kubernetes"]
    image: str  # containers/worker, in a registry that the cluster reaches; by digest
    namespace: str = "default"  # where the pods run
    cpu: WorkerShape  # workers for processors
    gpu: WorkerShape | None = None  # pods with one GPU each, which as many processes share as they have processors
    gpu_resource: str = "nvidia.com/gpu"  # the resource that asks for a GPU
    scheduler_cpus: int = Field(default=1, ge=1)  # processors of the scheduler's pod
    scheduler_memory: str = "4GiB"  # of the scheduler's pod, as Dask writes it
    # group that owns the volumes while they are mounted, so that the image's user can write them
    fs_group: int | None = Field(default=None, ge=1)
    # persistent volume claims by the folder where the study and the features are mounted
    volumes: Mapping[str, str] = Field(default_factory=dict)
    # names of secrets whose entries become environment variables (PREFECT_API_URL, AWS_*)
    secrets: tuple[str, ...] = ()
    start_timeout_s: float = Field(default=600, gt=0)  # how long the first worker may take


def _local_unless_said(value: Any) -> Any:
    return {"kind": "local", **value} if isinstance(value, Mapping) else value


ClusterSettings = Annotated[
    LocalCluster | ExistingScheduler | Slurm | Kubernetes,
    Field(discriminator="kind"),
    BeforeValidator(_local_unless_said),
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(ClusterSettings)


def load_cluster(text: str) -> LocalCluster | ExistingScheduler | Slurm | Kubernetes:
    """The cluster that ``--cluster`` names: a YAML file, or the address of a scheduler.

    Raises:
        ClusterSettingsError: the file cannot be read, or has unknown keys or bad values.
    """
    import yaml  # which most runs do without

    path = Path(text)
    try:
        if "://" in text:
            return ExistingScheduler(kind="address", address=text)
        content = yaml.safe_load(read_text(path))
        check_values(content)
        anchor_certificates(content, path.resolve().parent)
        return _ADAPTER.validate_python(content)
    except OSError as error:
        raise ClusterSettingsError(
            f"{text}: is neither an address (tls://host:port) nor a file that can be read: {error.strerror}"
        ) from None
    except yaml.YAMLError as error:
        raise ClusterSettingsError(f"{text}: is not YAML: {str(error).splitlines()[0]}") from None
    except ConfigFileError as error:
        raise ClusterSettingsError(f"{text}: {error}") from None
    except RecursionError:
        raise ClusterSettingsError(f"{text}: is nested too deeply") from None
    except ValidationError as error:
        faults = [_describe(fault) for fault in error.errors(include_url=False)]
        raise ClusterSettingsError("\n".join([f"{text}:", *(f"  {fault}" for fault in faults)])) from None
    except ValueError as error:  # what Python says of a number with thousands of digits
        raise ClusterSettingsError(f"{text}: is not YAML: {str(error).splitlines()[0]}") from None


def anchor_certificates(content: Any, folder: Path) -> None:
    """Take the paths of a cluster's certificates as relative to the folder of the file that names them."""
    tls = content.get("tls") if isinstance(content, dict) else None
    for key in ("ca", "cert", "key"):
        if isinstance(tls, dict) and isinstance(tls.get(key), str):
            tls[key] = str(folder / tls[key])


def _describe(fault: Any) -> str:
    path = ".".join(str(part) for part in fault["loc"]) or "the cluster"
    if fault["type"] == "extra_forbidden":
        return f"{path}: there is no such key{suggest_key(ClusterSettings, fault['loc'])}"
    return f"{path}: {fault['msg'].removeprefix('Value error, ')}"
