"""Earlier versions of objects: what a bucket with versioning keeps after objects are replaced or removed.

obstore neither lists nor removes them, so boto3 does. A version is removed by its id. A delete marker, which hides the
versions of an object, is removed last: without it a version that remains would be the object again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from storyframes.spec import feature_and_track
from storyframes.store.storage import Storage, StorageError
from tasks.forgetting.scope import Scope
from tasks.forgetting.traces import Trace

_DENIED = ("AccessDenied", "AllAccessDisabled", "MethodNotAllowed", "NotImplemented")
_ADVICE = (
    "have somebody run 'storyframes forget STUDY STORE' who may list and remove versions (s3:ListBucketVersions, "
    "s3:DeleteObjectVersion), or set a lifecycle rule for noncurrent versions"
)


class VersionsKeptError(StorageError):
    """The bucket does not let this user list or remove earlier versions; the message says what to do."""


@dataclass(frozen=True)
class _Version:
    path: str  # of the object, below the store
    id: str
    bytes: int


class EarlierVersions:
    """The earlier versions of a store's objects that have the forgotten.

    Every earlier version of the store's own tables is one of them, because these name all sessions.

    Args:
        storage: the store.
        scope: what is to be forgotten.
    """

    def __init__(self, storage: Storage, scope: Scope) -> None:
        self._location, self._scope = storage.location, scope
        store: Any = getattr(storage, "connection", None)
        self._bucket = store.config.get("bucket") if _is_s3(store) else None
        self._root = f"{store.prefix}/" if self._bucket and store.prefix else ""
        self._connect: Callable[[], Any] = partial(_client, store)

    def __bool__(self) -> bool:
        return self._bucket is not None

    def traces(self) -> tuple[list[Trace], list[Trace]]:
        """The versions, and the delete markers, which are to be removed if all of the versions could be.

        Raises:
            VersionsKeptError: they cannot be listed.
            StorageError: the bucket cannot be reached.
        """
        if self._bucket is None:
            return [], []
        with self._errors("cannot be looked for"):
            client = self._connect()
            versions, markers = self._listed(client)
        return [self._trace(client, version, "earlier version of an object") for version in versions], [
            self._trace(client, marker, "delete marker of an object") for marker in markers
        ]

    def _listed(self, client: Any) -> tuple[list[_Version], list[_Version]]:
        versions: list[_Version] = []
        markers: list[_Version] = []
        ids = self._scope.ids
        folders = sorted(ids.sessions | {session for session, _ in ids.tracks})
        for prefix, delimiter in [("", "/"), *((f"{session}/", "") for session in folders)]:
            pages = client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, Prefix=self._root + prefix, Delimiter=delimiter
            )
            for page in pages:
                items = [item for item in page.get("Versions", ()) if not item["IsLatest"]]
                versions += filter(self._is_about, map(self._version, items))
                markers += filter(self._is_about, map(self._version, page.get("DeleteMarkers", ())))
        return versions, markers

    def _version(self, item: dict[str, Any]) -> _Version:
        return _Version(item["Key"].removeprefix(self._root), item["VersionId"], item.get("Size", 0))

    def _is_about(self, version: _Version) -> bool:
        session, *below = version.path.split("/")
        if not below or self._scope.has_session(session):
            return True
        return len(below) > 1 and self._scope.has(session, feature_and_track(below[0])[1])

    def _trace(self, client: Any, version: _Version, what: str) -> Trace:
        def remove() -> None:
            with self._errors(f"of {version.path} cannot be removed"):
                client.delete_object(Bucket=self._bucket, Key=self._root + version.path, VersionId=version.id)

        return Trace(what, f"{self._location}/{version.path}?versionId={version.id}", version.bytes, lambda: "", remove)

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return _errors(f"{self._location}: earlier versions {what}")


def _is_s3(store: Any) -> bool:
    return type(store).__name__ == "S3Store"


def _client(store: Any) -> Any:
    """boto3's client for the bucket of a store of obstore, by the same options and variables of the environment."""
    import boto3
    from botocore.config import Config

    def setting(name: str) -> str | None:
        return store.config.get(name) or os.environ.get(f"AWS_{name.upper()}")

    is_virtual = str(setting("virtual_hosted_style_request")).lower() == "true"
    return boto3.client(
        "s3",
        endpoint_url=setting("endpoint"),
        region_name=setting("region") or setting("default_region") or "us-east-1",
        aws_access_key_id=setting("access_key_id"),
        aws_secret_access_key=setting("secret_access_key"),
        aws_session_token=setting("session_token") or setting("token"),
        config=Config(s3={"addressing_style": "virtual" if is_virtual else "path"}),
    )


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Errors of boto3 as a :class:`StorageError`."""
    if find_spec("boto3") is None:
        raise VersionsKeptError(f"{what} without the package boto3: 'pip install boto3', then run it again")
    from botocore.exceptions import BotoCoreError, ClientError  # which only stores in a bucket need

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        kind = VersionsKeptError if code in _DENIED else StorageError
        raise kind(f"{what} ({code}): {_ADVICE}") from None
    except BotoCoreError as error:
        raise StorageError(f"{what}: {error}", transient=True) from None
