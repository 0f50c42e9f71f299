"""Words as the pieces that a model of BERT's kind reads, by a tokenizer in a folder of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from storyframes import install_line
from storyframes.store import sha256_file
from storyframes_release.export.formats import ExportError
from tasks.models import import_torchvision

_LONGEST = 512  # pieces that bert-base has positions for
_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


class BertTokens:
    """A tokenizer of Hugging Face's ``transformers``, whose files are in a folder; nothing is downloaded.

    Attributes:
        about: its class, the SHA-256 of its files, and its revision where the folder is a snapshot of the hub's cache.
        padding: the id that fills what is shorter than the longest.
        longest: the pieces that its model reads.

    Raises:
        ExportError: transformers is not installed, or the folder has no tokenizer that marks beginnings and ends and
            says of which word a piece is.
    """

    def __init__(self, folder: Path) -> None:
        if find_spec("transformers") is None:
            raise ExportError(f"--bert-tokenizer needs transformers: {install_line('embed')}")
        import_torchvision()  # transformers imports it too, and fails on a wheel that does not match torch
        from transformers import AutoTokenizer

        if not folder.is_dir():
            raise ExportError(f"--bert-tokenizer {folder}: is no folder")
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
            )
        except Exception as error:  # the library raises anything for files that it does not like
            raise ExportError(f"--bert-tokenizer {folder}: has no tokenizer ({type(error).__name__})") from None
        name, padding = type(self._tokenizer).__name__, self._tokenizer.pad_token_id
        if not self._tokenizer.is_fast or padding is None or not self._has_marks():
            raise ExportError(f"--bert-tokenizer {folder}: a {name} is no tokenizer of BERT's kind")
        self.padding, self.longest = int(padding), min(int(self._tokenizer.model_max_length), _LONGEST)
        self.about = {"tokenizer": f"{name}, {len(self._tokenizer)} pieces"}
        if folder.resolve().parent.name == "snapshots":
            self.about["revision"] = folder.resolve().name
        self.about |= {file: f"sha256 {sha256_file(folder / file)}" for file in _FILES if (folder / file).is_file()}

    def __call__(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The id of each piece, with the marks of beginning and end, and the number of its word; of a mark -1."""
        made = self._tokenizer(list(words), is_split_into_words=True, truncation=False, verbose=False)
        return list(made["input_ids"]), [-1 if word is None else word for word in made.word_ids()]

    def _has_marks(self) -> bool:
        try:
            words = self(["a"])[1]
        except (AssertionError, ValueError, TypeError):  # it reads texts alone, no words
            return False
        return len(words) > 2 and words[0] == words[-1] == -1
