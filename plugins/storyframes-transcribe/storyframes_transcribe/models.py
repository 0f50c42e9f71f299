"""Models of Whisper in CTranslate2's format: published ones, in the hub's cache, and folders; checked before use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.extractors import snapshot_of
from tasks.models import model_digest

_NEEDED = ("config.json", "model.bin", "tokenizer.json")
_READ = (*_NEEDED, "preprocessor_config.json", "vocabulary.json", "vocabulary.txt")


class ModelError(Exception):
    """The model is not here, or is not what was published; the message says what to do."""


@dataclass(frozen=True)
class PublishedModel:
    """A model at a pinned commit of the hub.

    Attributes:
        repository, commit: where it is published.
        license: under which terms.
        sha256: of each file that is read.
    """

    repository: str
    commit: str
    license: str
    sha256: Mapping[str, str]

    @property
    def source(self) -> str:
        """As ``storyframes models fetch`` names it."""
        return f"hf:{self.repository}@{self.commit}"


PUBLISHED: Mapping[str, PublishedModel] = {
    "large-v3": PublishedModel(
        repository="Systran/faster-whisper-large-v3",
        commit="edaa852ec7e145841d8ffdb056a99866b5f0a478",
        license="MIT; 3.1 GB",
        sha256={
            "config.json": "a9306624f5ec14270a014b647e5c316b6e03a662c369758d1b90697a7b0655b9",
            "model.bin": "69f74147e3334731bc3a76048724833325d2ec74642fb52620eda87352e3d4f1",
            "preprocessor_config.json": "7ccc62c6f2765af1f3b46c00c9b5894426835a05021c8b9c01eecb6dfb542711",
            "tokenizer.json": "6d8cbd7cd0d8d5815e478dac67b85a26bbe77c1f5e0c6d76d1ce2abc0e5f21ca",
            "vocabulary.json": "c69260f2ab26d659b7c398f9a2b2b48ed0df16c3b47d7326782fd9cba71690c1",
        },
    ),
    "large-v2": PublishedModel(
        repository="Systran/faster-whisper-large-v2",
        commit="f0fe81560cb8b68660e564f55dd99207059c092e",
        license="MIT; 3.1 GB",
        sha256={
            "config.json": "d86b7a7664a12559d644aa210a32ce9a7e03913e794b7ea4fb7182de69e273a7",
            "model.bin": "bf2a9746382e1aa7ffff6b3a0d137ed9edbd9670c3b87e5d35f5e85e70d0333a",
            "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
        },
    ),
}


@dataclass(frozen=True)
class Model:
    """A model on this machine: its name for people, its folder, and one digest of all its files."""

    name: str
    folder: Path
    sha256: str


def find_model(name: str) -> Model:
    """A published model by its name, or the model in a folder. Nothing is downloaded.

    Raises:
        ModelError: it is not here, lacks a file, or a file is not the published one.
    """
    published = PUBLISHED.get(name)
    folder = snapshot_of(published.repository, published.commit) if published else Path(name)
    if not folder.is_dir():
        if published is None:
            raise ModelError(f"there is no folder {name}, and no model of this name: {', '.join(PUBLISHED)}, or a path")
        raise ModelError(
            f"the model {name} ({published.license}) is not on this machine; 'storyframes models fetch "
            f"{published.source}' gets it. Where there is no connection, copy the folder from another machine and give "
            "its path as --model"
        )
    if missing := [file for file in _NEEDED if not (folder / file).is_file()]:
        raise ModelError(
            f"{folder} lacks {', '.join(missing)}: a model in CTranslate2's format has {', '.join(_NEEDED)} "
            "(ct2-transformers-converter --copy_files tokenizer.json preprocessor_config.json)"
        )
    files = {file: model_digest(folder / file) for file in _READ if (folder / file).is_file()}
    for file, digest in (published.sha256 if published else {}).items():
        if files.get(file) != digest:
            raise ModelError(
                f"{folder / file} has not the SHA-256 of {published.source if published else ''}: {digest}"
            )
    lines = "".join(f"{digest}  {file}\n" for file, digest in sorted(files.items()))
    return Model(name if published else folder.resolve().name, folder, hashlib.sha256(lines.encode()).hexdigest())
