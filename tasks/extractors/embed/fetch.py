"""Getting a model from where it is published; nothing else in this room asks the network for anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes.installation import install_line
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.hub_cache import hub_folder, hub_repository, snapshot_of
from tasks.extractors.embed.model_files import PICKLE, READ, SAFETENSORS
from tasks.extractors.embed.settings import Origin
from tasks.extractors.embed.torchvision_weights import published_weights
from tasks.models import weights

_PARTS = {whole: re.compile(whole.replace(".", r"(-\d+-of-\d+)?\.")) for whole in (SAFETENSORS, PICKLE)}
_MODULE = re.compile(r"\d+_\w+")  # of a part of a model of sentences, as 1_Pooling


@dataclass(frozen=True)
class Fetched:
    """A model that is here now.

    Attributes:
        source: as a section says it.
        revision: the commit, or which of torchvision's weights.
        path: its folder, or file.
    """

    source: str
    revision: str
    path: Path


def is_source(name: str) -> bool:
    """Whether a name is that of a model that can be fetched: ``hf:OWNER/NAME``, maybe with ``@`` and a revision."""
    origin, colon, rest = name.partition(":")
    return bool(colon and rest) and origin in {Origin.HF, Origin.TIMM, Origin.TORCHVISION}


def fetch_source(name: str) -> Fetched:
    """Get a model by its source, with or without ``@`` and a revision; of the hub the newest commit without one.

    Raises:
        ExtractionError: it cannot be had; the message says why and what to do.
    """
    source, _, revision = name.partition("@")
    origin, _, model = source.partition(":")
    if origin == Origin.TORCHVISION:
        return _fetch_from_torchvision(source, model, revision)
    return _fetch_from_hub(source, hub_repository(Origin(origin), model), revision)


def _fetch_from_torchvision(source: str, model: str, name: str) -> Fetched:
    published = published_weights(model, name)
    file = weights.ModelFile(
        name=f"{source}@{name}",
        filename=published.path.name,
        url=published.url,
        sha256=published.sha256_begins,
        bytes=0,
        license="",
        about="",
        torch_hub=True,
    )
    try:
        return Fetched(source, name, weights.fetch(file))
    except weights.WeightsError as error:
        raise ExtractionError(str(error)) from None


def _fetch_from_hub(source: str, repository: str, revision: str) -> Fetched:
    try:
        from huggingface_hub import HfApi, errors, snapshot_download
        from huggingface_hub.utils import disable_progress_bars
    except ModuleNotFoundError:
        raise ExtractionError(f"huggingface_hub is not installed: {install_line('embed')}") from None
    disable_progress_bars()
    try:
        there = HfApi().model_info(repository, revision=revision or None)
        commit = str(there.sha)
        names = wanted_files([one.rfilename for one in there.siblings or ()])
        exactly = [re.sub(r"([*?[])", r"[\1]", name) for name in names]
        folder = snapshot_download(repository, revision=commit, cache_dir=hub_folder(), allow_patterns=exactly)
    except errors.GatedRepoError:
        raise ExtractionError(
            f"{source} is gated: accept its terms on its page at the hub, then run 'hf auth login' or set HF_TOKEN"
        ) from None
    except errors.RepositoryNotFoundError:
        raise ExtractionError(f"the hub has no model {repository!r}, or a private one: then set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise ExtractionError(f"{source} has no revision {revision!r}") from None
    except errors.HFValidationError:
        raise ExtractionError(f"{source!r} is no name of a model: hf:OWNER/NAME, or timm:NAME") from None
    except ExtractionError as error:
        raise ExtractionError(f"{source}: {error}") from None
    except Exception as error:  # the network, the proxy, the disk: the library lets through what its own layers raise
        here = snapshot_of(repository, revision)
        if here.is_dir():
            return Fetched(source, revision, here)
        raise ExtractionError(
            f"{source} could not be fetched ({type(error).__name__}): on a machine with a connection run the same "
            f"command, and copy {here.parent.parent.name} from its cache into {hub_folder()}"
        ) from None
    return Fetched(source, commit, Path(folder))


def wanted_files(names: Sequence[str]) -> list[str]:
    """Of a repository's files those that are loaded: one format of weights, tokenizers, configurations.

    Raises:
        ExtractionError: there are no weights of a format that is loaded.
    """
    top = [name for name in names if "/" not in name]
    found = next(
        (own for pattern in _PARTS.values() if (own := [name for name in top if pattern.fullmatch(name)])), None
    )
    if found is None:
        raise ExtractionError(f"it has neither {SAFETENSORS} nor {PICKLE}: other formats are not loaded")
    read = [name for name in top if name.endswith(READ) or name in ("README.md", "LICENSE")]
    parts = [name for name in names if name.count("/") == 1 and _MODULE.fullmatch(name.split("/")[0])]
    return sorted({*found, *read, *parts})
