"""Container engines of clusters, which need neither root nor a daemon: Apptainer, Singularity, Charliecloud;
and which engine there is on this machine, of these and of ``containers``.

Their images are files and folders. They limit neither memory nor processes: that is left to the batch system. The
locale inside is C, whatever it is here: one that the image lacks ends C++ programs before they begin (OpenFace#785).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from storyframes.store.records import canonical_json
from storyframes.store.storage.scratch import scratch_folder
from tasks.models.digests import model_digest, model_digests, name_as_text
from tasks.tools.containers import ContainerError, ContainerJob, Docker, Engine, EngineName, Image, Podman, mount_option
from tasks.tools.tool_process import RunningTool, reaper, thread_environment

_LOCALE = {"LANG": "C", "LC_ALL": "C"}
_UNENFORCED = "memory, processors and processes: the batch system has to"
_VARIABLES = ("APPTAINER", "SINGULARITY")
# Of an engine's variables, those that change nothing inside.
_KEPT = {f"{engine}_{name}" for engine in _VARIABLES for name in ("TMPDIR", "CACHEDIR")}
_LOOK_S = 20


class Apptainer(Engine):
    name = EngineName.APPTAINER
    installation = "apptainer: https://apptainer.org/docs/admin/main/installation.html, or a cluster's module"

    @property
    def unenforced(self) -> str:
        return _UNENFORCED

    def resolve(self, reference: str) -> Image:
        """A SIF file or the folder of a sandbox, by its absolute path."""
        if "://" in reference:
            raise ContainerError(
                f"{reference} would be pulled at each run, and nothing is ever pulled: '{self.name} build image.sif "
                f"{reference}' makes a file of it once; name that"
            )
        path = Path(reference)
        if path.is_absolute() and path.is_dir():
            return Image(str(path), folder_digest(path))
        if not path.is_absolute() or not path.is_file():
            raise ContainerError(
                f"{reference!r} is no SIF file and no sandbox: give the absolute path of one "
                f"('{self.name} build image.sif docker://NAME@sha256:…')"
            )
        return Image(str(path), model_digest(path))

    @contextlib.contextmanager
    def running(self, image: Image, job: ContainerJob) -> Iterator[RunningTool]:
        command = [self.executable, "exec", "--containall", "--cleanenv", "--no-home", "--no-privs", "--pwd", "/"]
        command += ["--net", "--network", "none"]
        for variable, value in {**_LOCALE, **thread_environment(job.limits.cpus)}.items():
            command += ["--env", f"{variable}={value}"]
        for mount in job.inputs:
            command += ["--mount", mount_option(mount, "ro")]
        command += ["--mount", mount_option(job.output)]
        command += [image.reference, *job.command]
        with reaper() as reap, self._client(command, job, self._environment(), reap) as tool:
            yield tool

    def _environment(self) -> dict[str, str]:
        """This process's, without what adds mounts or variables to every container (``APPTAINER_BIND``)."""
        return {name: value for name, value in os.environ.items() if not name.startswith(_VARIABLES) or name in _KEPT}


class Singularity(Apptainer):
    name = EngineName.SINGULARITY
    installation = "singularity 3.9 or later: https://docs.sylabs.io, or a cluster's module"


# $1 an empty folder, $2 the image's, $3 names at its top that are not the image's; then "ro SOURCE TARGET" or
# "rw SOURCE TARGET" as often as needed, --, and the command. Charliecloud mounts nothing read-only and makes no mount
# point in an image that is not to be changed, so the container's root is put together here, of mounts of what the image
# has. All of it is seen in this process's namespaces alone. A mount of a file system keeps its other options, which no
# user may take away. Charliecloud shows the machine's /dev inside, so its shared memory is covered. The command is a
# child of the shell, as the first process of a namespace is spared most signals. A remount that does not repeat the
# options of the file system below (nosuid, nodev) is refused.
_ROOT = r"""
trap 'exit 125' EXIT
set -e
ulimit -c 0
root=$1 image=$2 ours=$3
shift 3
read_only() {
    mount -o "remount,bind,ro,$(findmnt -nro VFS-OPTIONS -T "$1" | sed 's/^r[ow],*//')" "$1"
}
bind() {
    if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${2%/*}"; : > "$2"; fi
    mount --bind "$1" "$2"
}
mount -t tmpfs -o mode=755 tmpfs "$root"
for entry in "$image"/* "$image"/.[!.]*; do
    name=${entry##*/}
    case $ours in *" $name "*) continue;; esac
    if [ -L "$entry" ]; then cp -P "$entry" "$root/$name"
    elif [ -e "$entry" ]; then bind "$entry" "$root/$name"; read_only "$root/$name"
    fi
done
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/etc"
mount -t sysfs sysfs /sys 2> /dev/null || :
if [ -d /dev/shm ]; then mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm; fi
while [ "$1" != -- ]; do
    bind "$2" "$root$3"
    if [ "$1" = ro ]; then read_only "$root$3"; fi
    shift 3
done
shift
trap - EXIT
set +e
"$@"
exit $?
"""
_ISOLATED = (
    "--user",
    "--map-root-user",
    "--net",
    "--ipc",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)


class Charliecloud(Engine):
    name = EngineName.CHARLIECLOUD
    program = "ch-run"
    installation = "charliecloud: 'apt install charliecloud', or a cluster's module"

    @property
    def unenforced(self) -> str:
        return _UNENFORCED

    def resolve(self, reference: str) -> Image:
        """An image's folder, by its absolute path."""
        self._check_that_it_works()
        path = Path(reference)
        if not path.is_absolute() or not (path / "bin").exists():
            raise ContainerError(
                f"{reference!r} is no folder of an image: give the absolute path of one ('ch-image pull "
                "NAME@sha256:…', then 'ch-convert NAME@sha256:… /path/to/image')"
            )
        return Image(str(path), folder_digest(path))

    def _check_that_it_works(self) -> None:
        if os.geteuid() == 0:
            raise ContainerError("charliecloud is for ordinary users, and this process is root's: use podman or docker")
        command = [self._unshare(), *_ISOLATED, "true"]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_S, check=False)
        if tried.returncode:
            raise ContainerError(
                "charliecloud cannot close the network here, which takes namespaces of a user's own "
                f"('unshare {' '.join(_ISOLATED)} true' fails): {tried.stderr.strip()}"
            )

    @staticmethod
    def _unshare() -> str:
        if (unshare := shutil.which("unshare")) and shutil.which("findmnt"):
            return unshare
        raise ContainerError(
            "charliecloud cannot close the network here: 'unshare' and 'findmnt' (util-linux) are missing"
        )

    @contextlib.contextmanager
    def running(self, image: Image, job: ContainerJob) -> Iterator[RunningTool]:
        mounts = [("ro", mount) for mount in job.inputs] + [("rw", job.output)]
        for _, mount in mounts:
            mount.source.stat()  # raises where it is missing
        ours = {"dev", "proc", "sys", "tmp", *(mount.target.split("/")[1] for _, mount in mounts)}
        # S108: the container's own /tmp, not this machine's.
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "USER": "user", "HOME": "/tmp"}  # noqa: S108
        environment |= {**_LOCALE, **thread_environment(job.limits.cpus)}
        with scratch_folder("outside") as folder, reaper(folder) as reap:
            command = [self._unshare(), *_ISOLATED, "/bin/sh", "-c", _ROOT, "sh", str(folder), image.reference]
            command.append(f" {' '.join(sorted(ours))} ")
            for how, mount in mounts:
                command += [how, str(mount.source), mount.target]
            command += ["--", self.executable, "--no-passwd", "--private-tmp", "--cd", "/"]
            command += ["--uid", str(os.geteuid()), "--gid", str(os.getegid())]
            with self._client([*command, str(folder), "--", *job.command], job, environment, reap) as tool:
                yield tool


def folder_digest(folder: Path) -> str:
    """SHA-256 of an image's folder: the names of its files and links, what is in them, and which can be run.

    Files that have not changed since the last time on this machine are not read again.

    Raises:
        ContainerError: a file cannot be read.
    """
    files, entries = {}, {}
    try:
        for parent, folders, names in os.walk(folder):
            for path in (Path(parent, name) for name in (*folders, *names)):
                status, name = path.lstat(), name_as_text(path.relative_to(folder))
                if stat.S_ISLNK(status.st_mode):
                    entries[name] = f"to {name_as_text(path.readlink())}"
                elif stat.S_ISREG(status.st_mode):
                    files[name] = path
                    entries[name] = "program" if status.st_mode & stat.S_IXUSR else "file"
        digests = model_digests(files.values())
    except OSError as error:
        raise ContainerError(f"the image {folder} cannot be read: {error}") from None
    entries |= {name: f"{entries[name]} {digests[path]}" for name, path in files.items()}
    return hashlib.sha256(canonical_json(entries)).hexdigest()


_ENGINES: dict[EngineName, type[Engine]] = {
    engine.name: engine for engine in (Podman, Docker, Apptainer, Singularity, Charliecloud)
}


def installed_engines() -> Iterator[Engine]:
    """Those that are in PATH, in the order in which they are looked for."""
    for name in EngineName:
        engine = _ENGINES[name]
        if executable := shutil.which(engine.program or name):
            yield engine(executable)


def find_engine(configured: EngineName | None = None) -> Engine:
    """The configured engine, else the first that is installed.

    Raises:
        ContainerError: none is; the message says how to install each.
    """
    for engine in installed_engines():
        if configured in (None, engine.name):
            return engine
    raise ContainerError(no_engine(*([configured] if configured else [])))


def no_engine(*names: EngineName) -> str:
    """That none of these is here, of all without names, and how to install each."""
    names = names or tuple(EngineName)
    hints = "; ".join(_ENGINES[name].installation for name in names)
    return f"no container engine: looked for {', '.join(names)} in PATH. To install one: {hints}"
