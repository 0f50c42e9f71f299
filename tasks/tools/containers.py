"""Running one command in a container: what every engine promises, and podman and docker (others: ``hpc_engines``).

The engines' command lines are driven with subprocess, not through a library: python-on-whales supports neither
Apptainer nor a parent-death signal, and every flag that matters is named, where it can be read.

A container never survives its run. It has its own name; a timeout removes it; a reaper process removes it when this
process dies; and every run first removes the containers whose owner is dead (their label names the owner), in case the
reaper died too.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import resource
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from storyframes.store.storage.processes import ProcessIdentity
from tasks.tools.tool_process import Reaper, RunningTool, ToolResult, reaper, running_tool, thread_environment

_OWNER_LABEL = "io.storyframes.owner"
_ENGINE_TIMEOUT_S = 60
_PROCESSES = 512  # that a container may have, threads included
_NAME = re.compile(r"[A-Za-z0-9/]\S*")  # nothing that an engine takes for an option, and no second argument
_PINNED = re.compile(r"(.+@)?sha256:[0-9a-f]{64}")
_NOBODY = 65534
_NOT_STARTED = re.compile(
    r"catatonit\S* failed to exec pid1: (.+)|\[FATAL tini \S+ exec \S+ failed: (.+)|"
    r"ch-run\S* error: can't execve\S*: \S+: ([^(\n]+)"
)
_UNIFIED_CGROUPS = Path("/sys/fs/cgroup/cgroup.controllers")
ENGINE_FAILURES = range(125, 128)
"""Exit codes of the engines themselves, before anything ran."""


class EngineName(StrEnum):
    """The engines, in the order in which they are looked for."""

    PODMAN = "podman"
    DOCKER = "docker"
    APPTAINER = "apptainer"
    SINGULARITY = "singularity"
    CHARLIECLOUD = "charliecloud"


class ContainerError(Exception):
    """An engine or an image is missing, or cannot be used as requested; the message says what to do."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine inside the container."""

    source: Path
    target: str


@dataclass(frozen=True)
class Limits:
    """What a container may use."""

    cpus: int  # processors; also the threads of its numerical libraries
    memory_gib: float  # GiB of memory, no swap
    timeout_s: float  # seconds until it is removed


@dataclass(frozen=True)
class ContainerJob:
    """One command to run in a container."""

    name: str  # of the container; unique to this attempt
    command: tuple[str, ...]  # with an absolute path first
    inputs: tuple[Mount, ...]  # read-only
    output: Mount  # the only folder that can be written
    limits: Limits
    takes_input: bool = False  # whether the caller writes to its standard input


@dataclass(frozen=True)
class Image:
    """An image that is on this machine."""

    reference: str  # the engine's name for it
    digest: str  # SHA-256 of its configuration (podman, docker), of the SIF file or of the folder's files


@dataclass
class Engine(ABC):
    """A container engine of this machine."""

    executable: str
    name: ClassVar[EngineName]
    program: ClassVar[str] = ""
    """The program that is looked for; that of the engine's name where empty."""
    installation: ClassVar[str]
    """How to install it."""

    @property
    def unenforced(self) -> str:
        """The limits of a job that nothing enforces here, and who has to; empty where all are enforced."""
        return ""

    @abstractmethod
    def resolve(self, reference: str) -> Image:
        """The image that ``reference`` names, which must be pinned by a digest and on this machine already.

        Raises:
            ContainerError: it is not pinned, or not on this machine; nothing is ever pulled.
        """

    @abstractmethod
    def running(self, image: Image, job: ContainerJob) -> contextlib.AbstractContextManager[RunningTool]:
        """The job as it runs, to write to its standard input; its container is removed at the end of the block.

        Raises:
            ContainerError: an input cannot be read by the user inside.
        """

    def run(self, image: Image, job: ContainerJob) -> ToolResult:
        """Run the job to its end and remove its container, also after an error.

        Raises:
            ContainerError: an input cannot be read by the user inside.
        """
        with self.running(image, job) as tool:
            return tool.end()

    def _client(
        self,
        command: list[str],
        job: ContainerJob,
        environment: Mapping[str, str] = os.environ,
        reaper: Reaper | None = None,
    ) -> contextlib.AbstractContextManager[RunningTool]:
        return running_tool(
            command,
            folder=Path("/"),
            timeout_s=job.limits.timeout_s,
            environment=environment,
            reaper=reaper,
            takes_input=job.takes_input,
        )


class _OciEngine(Engine):
    """What podman and docker have in common."""

    health_check: ClassVar[str]
    """The command that fails where the engine does not work."""
    removal: ClassVar[tuple[str, ...]] = ("rm", "--force")

    @property
    def unenforced(self) -> str:
        if self._is_rootless and not _UNIFIED_CGROUPS.exists():
            return "memory, processors and processes: cgroups v1 cannot without root"
        return ""

    @property
    def _is_rootless(self) -> bool:
        return os.geteuid() != 0

    def resolve(self, reference: str) -> Image:
        if not is_name_of_image(reference):
            raise ContainerError(f"{reference!r} is no name of an image")
        if not _PINNED.fullmatch(reference):
            raise ContainerError(
                f"the image {reference!r} is not pinned: name it by digest (NAME@sha256:…) or by image id (sha256:…)"
            )
        listed = self._ask("image", "inspect", "--format", "{{.Id}}", reference)
        if listed.returncode:
            self._check_that_it_works(listed.stderr)
            raise ContainerError(
                f"the image {reference} is not on this machine: '{self.name} pull {reference}' gets it"
            )
        digest = listed.stdout.strip().removeprefix("sha256:")
        return Image(f"sha256:{digest}", digest)

    def _check_that_it_works(self, printed: str) -> None:
        """Distinguish an engine that does not work (its daemon is down, say) from a missing image."""
        if self._ask(self.health_check).returncode:
            last = next((line for line in reversed(printed.splitlines()) if line.strip()), "it printed nothing")
            raise ContainerError(
                f"{self.name} does not work here ('{self.name} {self.health_check}' fails): {last.strip()}"
            )

    @contextlib.contextmanager
    def running(self, image: Image, job: ContainerJob) -> Iterator[RunningTool]:
        self.sweep()
        removal = (*self.removal, job.name)
        with reaper(command=[self.executable, *removal]):
            try:
                with self._client(self._command(image, job), job) as tool:
                    yield tool
            finally:
                self._ask(*removal)

    def sweep(self) -> list[str]:
        """Remove the containers of owners that are dead, and return their names."""
        listed = self._ask("ps", "--all", "--quiet", "--filter", f"label={_OWNER_LABEL}")
        removed = []
        for container in listed.stdout.split():
            owner = self._ask("inspect", "--format", f'{{{{index .Config.Labels "{_OWNER_LABEL}"}}}}', container)
            if owner.returncode == 0 and _is_dead(ProcessIdentity.parse(owner.stdout.strip())):
                self._ask(*self.removal, container)
                removed.append(container)
        return removed

    def _command(self, image: Image, job: ContainerJob) -> list[str]:
        limits = job.limits
        memory = f"{round(limits.memory_gib * 1024)}m"
        options = {
            "--name": job.name,
            "--label": f"{_OWNER_LABEL}={ProcessIdentity.this_process().text()}",
            "--network": "none",
            "--cap-drop": "all",
            "--pull": "never",
            "--user": self._user(job),
            "--cpus": str(limits.cpus),
            "--memory": memory,
            "--memory-swap": memory,
            "--pids-limit": str(_PROCESSES),
            "--log-driver": "none",
            "--workdir": "/",
            "--tmpfs": "/tmp:rw,size=64m,mode=1777",  # noqa: S108
        }
        command = [self.executable, "run", "--rm", "--init", "--read-only"]
        for name, value in options.items():
            command += [name, value]
        command += ["--security-opt", "no-new-privileges", "--security-opt", "label=disable"]
        command += ["--ulimit", _ulimit("nofile", resource.RLIMIT_NOFILE), "--ulimit", "core=0:0"]
        command += ["--ulimit", _ulimit("nproc", resource.RLIMIT_NPROC)]
        for variable, value in {"HOME": "/tmp", **thread_environment(limits.cpus)}.items():  # noqa: S108
            command += ["--env", f"{variable}={value}"]
        for mount in job.inputs:
            command += ["--mount", mount_option(mount, "readonly")]
        command += ["--mount", mount_option(job.output)]
        if job.takes_input:
            command += ["--interactive"]
        return [*command, *self._own_options(), "--entrypoint", job.command[0], image.reference, *job.command[1:]]

    def _own_options(self) -> list[str]:
        """The options that only this engine has."""
        return []

    def _user(self, job: ContainerJob) -> str:
        """A user that is not root on the machine, may read the inputs, and owns the output."""
        if os.geteuid():
            return f"{os.geteuid()}:{os.getegid()}"
        uid, gid = _reader_of(job.inputs)
        os.chown(job.output.source, uid, gid)
        return f"{uid}:{gid}"

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The engine's answer to a command; an engine that hangs has failed."""
        command = [self.executable, *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"no answer in {_ENGINE_TIMEOUT_S} s")


class Podman(_OciEngine):
    name = EngineName.PODMAN
    installation = "podman: 'apt install podman' or 'dnf install podman'"
    health_check = "info"
    removal = ("rm", "--force", "--time", "0")

    def _own_options(self) -> list[str]:
        # Without --http-proxy=false the proxy's variables go in, and a password that is in them.
        return ["--read-only-tmpfs=false", "--http-proxy=false", *(["--userns", "keep-id"] if os.geteuid() else [])]


class Docker(_OciEngine):
    name = EngineName.DOCKER
    installation = "docker: https://docs.docker.com/engine/install"
    health_check = "version"

    def _user(self, job: ContainerJob) -> str:
        # In a rootless Docker, root in the container is this user on the machine.
        return "0:0" if self._is_rootless else super()._user(job)

    @cached_property
    def _is_rootless(self) -> bool:
        return os.geteuid() != 0 and "rootless" in self._ask("info", "--format", "{{.SecurityOptions}}").stdout


def is_name_of_image(text: str) -> bool:
    """Whether this may be passed to an engine as an image: it is no option and has no second part."""
    return bool(_NAME.fullmatch(text))


def why_not_started(result: ToolResult) -> str:
    """The message of a container's init that cannot run its program; empty where the program ran."""
    match = _NOT_STARTED.search(result.output) if result.exit_code else None
    return next(filter(None, match.groups())).strip() if match else ""


def _is_dead(owner: ProcessIdentity | None) -> bool:
    """Engines keep containers of this machine only, so the owner of another boot is dead."""
    return owner is not None and (not owner.is_of_this_boot or owner.is_gone)


def mount_option(mount: Mount, *flags: str) -> str:
    """A value of --mount, which engines read as one line of CSV: any file name is possible."""
    line = io.StringIO()
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}", *flags]
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _ulimit(name: str, which: int) -> str:
    """An explicit limit: the engines' default may be more than this user is allowed."""
    hard = resource.getrlimit(which)[1]
    value = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    return f"{name}={value}:{value}"


def _reader_of(inputs: tuple[Mount, ...]) -> tuple[int, int]:
    """The user and group of a container where this process is root.

    That is the inputs' owner; ``nobody`` where the owner is root, or they have several, and everybody may read them.

    Raises:
        ContainerError: an input that not everybody may read belongs to root.
    """
    readable = {mount: bool(mount.source.stat().st_mode & 0o004) for mount in inputs}
    closed = [mount for mount in inputs if not readable[mount]]
    owners = {(status.st_uid, status.st_gid) for status in (mount.source.stat() for mount in closed or inputs)}
    owner = owners.pop() if len(owners) == 1 else (0, 0)
    if owner[0]:
        return owner
    if closed:
        raise ContainerError(
            f"{closed[0].source.name} can be read by root only, and nothing in a container runs as root: run "
            "storyframes as the recordings' owner, or let others read them"
        )
    return _NOBODY, _NOBODY
