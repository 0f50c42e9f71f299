"""Opening the place where a feature store lies: a folder, or a prefix of an S3-compatible object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storyframes.store.folder_storage import LocalStorage
from storyframes.store.storage import Storage


def open_storage(location: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """The place that ``location`` names: a path, or a URL (``s3://bucket/prefix``).

    Args:
        location: where.
        options: for a URL, what obstore takes (``endpoint``, ``region``, ``access_key_id``, ``client_options``, …); the
            environment's ``AWS_*`` variables otherwise.

    Raises:
        StorageError: the URL's scheme is unknown, or obstore is not installed.
    """
    text = os.fspath(location)
    if "://" in text:
        from storyframes.store.object_storage import ObjectStorage  # needs obstore

        return ObjectStorage(text, options or {})
    return LocalStorage(Path(text).absolute())  # workers may run in another folder
