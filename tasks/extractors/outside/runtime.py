"""Where a program runs: in a Python environment of its own, or in a container."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.extractors.outside.environment import Environment
from tasks.tools.containers import ContainerJob, Engine, Image, Limits, Mount
from tasks.tools.tool_process import Reaper, RunningTool, running_tool, thread_environment

CLIENT = Path(__file__).with_name("client.py")
_OUTPUT = "/storyframes/output"


@dataclass(frozen=True)
class WorkFolder:
    """The private folder of one run."""

    root: Path  # the folder; nobody else can look into it
    reaper: Reaper  # removes it when this process is killed

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def frame_times(self) -> Path:
        return self.root / "frame_times.npy"

    @property
    def output(self) -> Path:
        """The one folder that the program may write to; in a container it belongs to the user there."""
        return self.root / "output"

    @property
    def temporary(self) -> Path:
        """Where a program of this machine is at home."""
        return self.root / "temporary"


class Runtime(ABC):
    """Where a program runs, and the paths that its files have there."""

    @abstractmethod
    def seen(self, folder: WorkFolder, inputs: Mapping[str, Path]) -> tuple[dict[str, str], str, str]:
        """The inputs by kind, the frame times and the output folder, as the program sees them."""

    @abstractmethod
    def running(
        self, folder: WorkFolder, inputs: Mapping[str, Path], name: str, timeout_s: float, *, takes_input: bool
    ) -> AbstractContextManager[RunningTool]:
        """The program as it runs; ``name`` is this attempt's alone.

        Raises:
            ContainerError: its container cannot be run.
        """


@dataclass(frozen=True)
class VenvRuntime(Runtime):
    """The program in an environment of this machine, without its network."""

    environment: Environment  # its own
    program: Path  # a Python file, or a folder with a ``__main__.py``
    threads: int  # how many it may use

    def seen(self, folder: WorkFolder, inputs: Mapping[str, Path]) -> tuple[dict[str, str], str, str]:
        return {kind: str(path) for kind, path in inputs.items()}, str(folder.frame_times), str(folder.output)

    def running(
        self, folder: WorkFolder, inputs: Mapping[str, Path], name: str, timeout_s: float, *, takes_input: bool
    ) -> AbstractContextManager[RunningTool]:
        command = [str(self.environment.executable), "-I", str(CLIENT), str(self.program), str(folder.manifest)]
        command.append("--no-network")
        home = str(folder.temporary)
        return running_tool(
            command,
            folder=folder.temporary,
            timeout_s=timeout_s,
            environment={"LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, **thread_environment(self.threads)},
            reaper=folder.reaper,
            takes_input=takes_input,
        )


@dataclass(frozen=True)
class ContainerRuntime(Runtime):
    """The program in a container: no network, nothing of this machine but the inputs."""

    # engine, image: which
    engine: Engine
    image: Image
    command: tuple[str, ...]  # what is run, by its absolute path inside; the manifest's path is put behind it
    # a Python file or folder that ``command``, an interpreter, runs; None where it is in the image
    program: Path | None
    limits: Limits  # what it may use

    def seen(self, folder: WorkFolder, inputs: Mapping[str, Path]) -> tuple[dict[str, str], str, str]:
        inside = {kind: _inside(kind, path) for kind, path in inputs.items()}
        return inside, f"/storyframes/{folder.frame_times.name}", _OUTPUT

    def running(
        self, folder: WorkFolder, inputs: Mapping[str, Path], name: str, timeout_s: float, *, takes_input: bool
    ) -> AbstractContextManager[RunningTool]:
        ours = [folder.manifest, folder.frame_times]
        command = self.command
        if self.program is not None:
            ours += [_readable_copy(path, folder.root) for path in (CLIENT, self.program)]
            command = (*command, f"/storyframes/{CLIENT.name}", f"/storyframes/{self.program.name}")
        job = ContainerJob(
            name=name,
            command=(*command, f"/storyframes/{folder.manifest.name}"),
            inputs=(
                *(Mount(path, f"/storyframes/{path.name}") for path in ours),
                *(Mount(path, _inside(kind, path)) for kind, path in inputs.items()),
            ),
            output=Mount(folder.output, _OUTPUT),
            limits=replace(self.limits, timeout_s=timeout_s),
            takes_input=takes_input,
        )
        return self.engine.running(self.image, job)


def _readable_copy(source: Path, folder: Path) -> Path:
    """A copy that the container's user can read, however it was installed; the folder around it is ours alone."""
    copy = folder / source.name
    if source.is_file():
        shutil.copyfile(source, copy)
    else:
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def _inside(kind: str, path: Path) -> str:
    """The name that a session's file has inside, whatever its name is here."""
    return f"/input/{kind}{path.suffix}"
