"""How many processes share a GPU: decided here for every kind of cluster, and shown by ``doctor`` and ``plan``.

What a GPU waits for is decoding and resizing, which take a processor for each session (docs/performance.md). Threads of
one process take turns in Python. So several processes share each GPU: each has its share of Dask's resource ``GPU``, a
network of its own, and one session at a time.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT

from flows.clusters.connection import Needs
from flows.clusters.settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm
from tasks.extractors.settings import LEAST_GPU_SHARE

PROCESS_GB = 4  # of memory: CUDA's own, several networks one after the other, batches of frames
_BESIDE_GB = 2  # of memory, for each processor: a worker that does not use the GPU
_GPU_GB = 4  # of a GPU's memory: CUDA's own, a network, its batches
JOB_PROCESSES = 8  # that share the GPU of a job, where nothing says how many processors it has: more gain little
_ANSWERS_S = 20.0  # that nvidia-smi is waited for


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine, as NVIDIA's driver shows it."""

    shown: str  # its name and memory
    memory: int  # bytes; 0 where it does not say


def gpus_here() -> list[Gpu]:
    """The GPUs that ``nvidia-smi`` shows; none where it is not installed or does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWERS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    gpus = []
    for line in done.stdout.strip().splitlines() if done.returncode == 0 else []:
        try:
            gpus.append(Gpu(line, parse_bytes(line.rpartition(", ")[2])))
        except ValueError:  # "[N/A]"
            gpus.append(Gpu(line, 0))
    return gpus


def processes_per_gpu(
    needs: Sequence[Needs], *, cpus: int, memory: float, gpus: int = 1, gpu_memory: float = math.inf
) -> int:
    """How many processes share each GPU, at least one.

    As many as there are processors and memory for, on the machine and on the GPU. Work that asks for a certain share
    (``sessions_per_gpu``, or a whole GPU) decides instead.

    Args:
        needs: of the work.
        cpus: processors for all GPUs together.
        memory: bytes for all these processes together.
        gpu_memory: bytes of one GPU; infinite where that is not known.
    """
    share = max((need["GPU"] for need in needs if "GPU" in need), default=1.0)
    if share > LEAST_GPU_SHARE:
        return max(1, int(1 / share + 1e-9))
    possible = [cpus // max(gpus, 1), memory / (max(gpus, 1) * PROCESS_GB * 1e9), gpu_memory / (_GPU_GB * 1e9)]
    return max(1, int(min(possible)))


def processes_of(cluster: LocalCluster | ExistingScheduler | Slurm | Kubernetes, needs: Sequence[Needs]) -> int:
    """How many processes share each GPU of a cluster for work with these needs.

    0 where it has none, where the work needs none, and where the cluster's workers say it themselves.
    """
    match cluster:
        case _ if not any("GPU" in need for need in needs):
            return 0
        case LocalCluster() if cluster.gpus:
            left = MEMORY_LIMIT - cluster.processors * _BESIDE_GB * 1e9
            gpu_memory = min((gpu.memory for gpu in gpus_here()), default=0) or math.inf
            return processes_per_gpu(
                needs, gpus=cluster.gpus, cpus=cluster.processors, memory=left, gpu_memory=gpu_memory
            )
        case Slurm() | Kubernetes() if cluster.gpu:
            return processes_per_gpu(needs, cpus=cluster.gpu.cpus, memory=parse_bytes(cluster.gpu.memory))
    return 0
