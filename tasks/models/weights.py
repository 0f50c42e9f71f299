"""Model files: what they are, where they are looked for, how they are fetched.

None is shipped. A download is accepted if its SHA-256 is the one below.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.storage.files import flush_folder, sha256_file
from storyframes.store.storage.scratch import scratch_beside
from tasks.models.digests import user_cache

_BLOCK = 1 << 20


class WeightsError(Exception):
    """A model file is not there, cannot be fetched or is not what it should be; the message says what to do."""


@dataclass(frozen=True)
class ModelFile:
    """A published model file."""

    name: str  # what ``storyframes models`` calls it
    filename: str  # its name on this machine
    url: str  # where it is published
    # of what the URL gives, or the beginning of it where no more is published; empty where its authors publish none,
    # and then it is not downloaded here
    sha256: str
    bytes: int  # about how large that is
    license: str  # under which terms
    about: str  # which feature needs it
    member: str = ""  # the file inside the archive that is kept, where the URL gives a zip archive
    torch_hub: bool = False  # it is in torch's own cache, shared with other programs

    @property
    def path_here(self) -> Path | None:
        """Its path on this machine, None if it is not here."""
        return self.path if self.path.is_file() else None

    @property
    def path(self) -> Path:
        """Its path once fetched."""
        folder = torch_hub_folder() if self.torch_hub else user_cache() / "models"
        return folder / self.filename


def torch_hub_folder() -> Path:
    """The checkpoint folder of torch.hub, found as torch finds it but without importing torch."""
    home = os.environ.get("TORCH_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(home) if home else cache / "torch") / "hub" / "checkpoints"


MODELS: dict[str, ModelFile] = {
    model.name: model
    for model in (
        ModelFile(
            name="resnet50-v1",
            filename="resnet50-0676ba61.pth",
            url="https://download.pytorch.org/models/resnet50-0676ba61.pth",
            sha256="0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
            bytes=102_530_333,
            license="BSD-3-Clause (torchvision); trained on ImageNet, whose terms are for research",
            about="resnet50, weights = IMAGENET1K_V1 (the default; what pretrained=True meant)",
            torch_hub=True,
        ),
        ModelFile(
            name="resnet50-v2",
            filename="resnet50-11ad3fa6.pth",
            url="https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
            sha256="11ad3fa62ca79e40addfd354a8ec4b7c75143b3038b8d2a807fbc68deab379ca",
            bytes=102_540_417,
            license="BSD-3-Clause (torchvision); trained on ImageNet, whose terms are for research",
            about="resnet50, weights = IMAGENET1K_V2 (other embeddings than V1)",
            torch_hub=True,
        ),
        ModelFile(
            name="glove-840b",
            filename="glove.840B.300d.txt",
            url="https://nlp.stanford.edu/data/glove.840B.300d.zip",
            sha256="c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
            bytes=2_176_768_927,
            license="Public Domain Dedication and License 1.0",
            about="glove (the default: 2.2 million cased words)",
            member="glove.840B.300d.txt",
        ),
        ModelFile(
            name="glove-6b",
            filename="glove.6B.300d.txt",
            url="https://nlp.stanford.edu/data/glove.6B.zip",
            sha256="617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
            bytes=862_182_613,
            license="Public Domain Dedication and License 1.0",
            about="glove, a smaller vocabulary (400,000 lower-case words): [glove] vectors = its path",
            member="glove.6B.300d.txt",
        ),
        ModelFile(
            name="dope",
            filename="DOPE_v1_0_0.pth.tgz",
            url="http://download.europe.naverlabs.com/ComputerVision/DOPE_models/DOPE_v1_0_0.pth.tgz",
            sha256="",
            bytes=0,
            license="CC BY-NC-SA 4.0 (Naver): non-commercial use",
            about="dope, float32; get it by hand (no checksum is published)",
        ),
        ModelFile(
            name="dope-realtime",
            filename="DOPErealtime_v1_0_0.pth.tgz",
            url="http://download.europe.naverlabs.com/ComputerVision/DOPE_models/DOPErealtime_v1_0_0.pth.tgz",
            sha256="",
            bytes=0,
            license="CC BY-NC-SA 4.0 (Naver): non-commercial use",
            about="dope, float16 on a GPU: [dope] model = its path; get it by hand",
        ),
    )
}


def not_here(model: ModelFile) -> str:
    """A sentence for a model that is absent, with the command that fetches it."""
    return f"{model.filename} is not on this machine; 'storyframes models fetch {model.name}' gets it"


def fetch(model: ModelFile, progress: Callable[[int, int], None] = lambda *_: None) -> Path:
    """Download the model, check it, and put it in its place, unless it is there; progress gets bytes so far and in all.

    Raises:
        WeightsError: no connection, or the download is not what was published.
    """
    if path := model.path_here:
        return path
    if not model.sha256:
        raise WeightsError(
            f"{model.filename} cannot be checked, since its authors publish no checksum, so it is not downloaded here. "
            f"Read its licence ({model.license}), get {model.url}, and put it at {model.path}"
        )
    folder = model.path.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with scratch_beside(model.path) as scratch:
        download = scratch / "download"
        digest = _download(model, download, progress)
        if not digest.startswith(model.sha256):
            raise WeightsError(
                f"{model.url} gave a file with SHA-256 {digest}, but {model.sha256} was published: nothing was kept"
            )
        if model.member:
            with zipfile.ZipFile(download) as archive:
                archive.extract(model.member, scratch)
            download = scratch / model.member
        os.replace(download, model.path)
    flush_folder(folder)
    return model.path


def _download(model: ModelFile, target: Path, progress: Callable[[int, int], None]) -> str:
    import urllib.error  # with TLS, a twentieth of a second
    import urllib.request

    digest, done = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(model.url, timeout=30) as response, target.open("wb") as file:  # noqa: S310
            total = int(response.headers.get("Content-Length") or model.bytes)
            while block := response.read(_BLOCK):
                file.write(block)
                digest.update(block)
                done += len(block)
                progress(done, total)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise WeightsError(
            f"{model.name} could not be fetched ({reason}); on a machine with a connection download {model.url}, check "
            f"its SHA-256 ({model.sha256}) and put it at {model.path}"
        ) from None
    return digest.hexdigest()


def check(path: Path, model: ModelFile) -> None:
    """Refuse a file that claims by its name to be ``model`` and is not.

    Raises:
        WeightsError: its SHA-256 is another.
    """
    if not model.member and (digest := sha256_file(path)) != model.sha256:
        raise WeightsError(f"{path} has SHA-256 {digest}, but {model.filename} has {model.sha256}: fetch it again")
