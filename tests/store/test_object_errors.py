"""Every error of an object store is one of ours, and says whether trying again may help."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from support.messages import naming
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue, record_status
from storyframes.store.catalogue import Snapshot
from storyframes.store.layout import ROOT_GROUP, StoreError
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage import Storage, StorageError, may_pass
from storyframes.store.storage.object_store import ObjectStorage
from tasks.extract import ExtractionUnit, failed
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings, build_extractor

TRANSIENT = (500, 502, 503, 429, 408)
FOR_GOOD = (400, 401, 403)
BROKEN = 0  # the connection ends without an answer


class _Answers(BaseHTTPRequestHandler):
    """A server that answers every request with one status."""

    status = 500

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.status:
            self.close_connection = True
            return
        body = b"<Error><Code>Some</Code><Message>SECRET-DETAIL\nof the server</Message></Error>"
        self.send_response(self.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def storage() -> Iterator[ObjectStorage]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield ObjectStorage(
        "s3://lab/features",
        {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "access_key_id": "a",
            "secret_access_key": "b",
            "region": "us-east-1",
            "client_options": {"allow_http": True},
            "retry_config": {"max_retries": 0},
        },
    )
    server.shutdown()
    server.server_close()


def _commit(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text("{}")
    storage.commit(tmp_path, "a/frames/x")


USES: dict[str, Callable[[Storage, Path], Any]] = {
    "read": lambda storage, _: storage.read("a/zarr.json"),
    "read many": lambda storage, _: storage.read_many(["a/zarr.json", "b/zarr.json"]),
    "replace": lambda storage, _: storage.replace("a/zarr.json", b"{}"),
    "update": lambda storage, _: storage.update("a/zarr.json", lambda before: b"{}"),
    "info": lambda storage, _: storage.info("a/zarr.json"),
    "files": lambda storage, _: storage.files(),
    "records": lambda storage, _: storage.records(["current.json"]),
    "digest": lambda storage, _: storage.digest("a/zarr.json"),
    "remove": lambda storage, _: storage.remove(["a/zarr.json"]),
    "commit": _commit,
    "zarr": lambda storage, _: zarr.open_group(mode="r", **storage.zarr("a/frames/x")),
    "zarr array": lambda storage, _: zarr.open_array(mode="r", **storage.zarr("a/frames/x/time")),
}


@pytest.mark.parametrize("status", [*TRANSIENT, *FOR_GOOD, BROKEN])
def test_every_use_of_a_store_gives_our_error(
    storage: Storage, tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answers, "status", status)
    for name, use in USES.items():
        with pytest.raises(StorageError) as caught:
            use(storage, tmp_path)
        assert may_pass(caught.value) is (status not in FOR_GOOD), (name, status)
        assert str(caught.value).startswith("s3://lab/features"), name
        assert "\n" not in str(caught.value)
        assert may_pass(pickle.loads(pickle.dumps(caught.value))) is may_pass(caught.value)


def test_what_is_absent_is_no_error_but_a_digest_of_it_is(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "status", 404)
    assert storage.read("a/zarr.json") is None
    assert storage.info("a/zarr.json") is None
    with pytest.raises(FileNotFoundError):
        storage.digest("a/zarr.json")


@pytest.mark.parametrize(("status", "transient"), [(503, True), (403, False)])
def test_an_extraction_tries_again_only_what_may_pass(
    storage: Storage, store_root: Path, status: int, transient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answers, "status", status)
    with pytest.raises(StorageError) as caught:
        storage.digest("a/frames/x")
    work = ExtractionUnit(str(store_root), Source("a", {}), ("frames",), ExtractorsSettings())
    frames = build_extractor(work.settings, "a", "frames")
    outcome = failed(local(store_root), work, frames, caught.value, "")
    assert outcome.transient is transient
    assert "unexpected" not in outcome.reason


def test_a_shard_that_is_gone_is_an_error_and_never_missing_values(store_root: Path) -> None:
    """Zarr gives the fill value for a chunk that is not there: NaN, as if nobody had been seen."""
    from support.faults.turns import TurnsInMemory

    from storyframes.store.feature_store import FeatureStore

    storage = TurnsInMemory()
    with FeatureWriter(storage, "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(70.0))
        version = out.publish("f", {}).version
    store = FeatureStore.__new__(FeatureStore)
    store.__setstate__({"storage": storage, "versions": Snapshot.of(storage), "kept": (None, 0)})
    array = store.array("a", "frames", "time")
    assert array[69] == 69
    storage.remove([f"a/frames/{version}/time/c/0"])
    with pytest.raises(StoreError, match=naming("was its version removed by")):
        store.read("a", "frames", array="time")
    with pytest.raises(StorageError, match=naming("was its version removed by")):
        array[:]


def test_an_archive_is_not_made_of_what_is_gone(store_root: Path, tmp_path: Path) -> None:
    from storyframes.store.layout import create_store
    from storyframes.store.maintenance.archive import archive

    version = publish_openface(store_root, "a", 70)
    (store_root / "a/openface" / version / "values/c/0/0").unlink()
    with pytest.raises(StorageError, match="does not exist"):
        list(archive(local(store_root), create_store(tmp_path / "archive")))


# --- a listing that lags ---------------------------------------------------------------------------------------------


def test_a_listing_that_lags_loses_nothing(store_root: Path) -> None:
    """A store whose listing shows the state of a while ago, while what is asked for by its name is as it is."""
    from support.faults.turns import TurnsInMemory

    from storyframes.store import maintenance

    class Lagging(TurnsInMemory):
        listed: Any = None

        def _list(self, prefix: str = "") -> Any:
            listed = super()._list() if self.listed is None else self.listed
            return [item for item in listed if item["path"].startswith(prefix)]

    def publish(session_id: str, number: int) -> None:
        with FeatureWriter(storage, session_id, FEATURES["frames"]) as out:
            out.write("time", np.full(number, 1.0))
            out.publish(str(number), {})

    storage = Lagging()
    storage.replace("zarr.json", ROOT_GROUP)
    publish("a", 1)
    storage.listed = storage._list()
    publish("a", 2)  # proved and recorded whole, though no listing shows its files
    publish("b", 3)
    assert not list(maintenance.verify(storage))
    current = record_status.read_status(storage, "a", "frames").record
    assert len(current.files) == 3
    assert maintenance.is_intact(storage, current, storage.files())
    storage.listed = None
    catalogue.compact(storage)
    assert set(Snapshot.of(storage).frame()["session_id"]) == {"a", "b"}
    storage.listed = [item for item in storage._list() if not item["path"].startswith("b/")]
    catalogue.compact(storage)
    assert set(Snapshot.of(storage).frame()["session_id"]) == {"a", "b"}  # what was known is asked for by its name
    assert not list(maintenance.verify(storage))
    list(maintenance.collect(storage, -5))
    assert not list(maintenance.verify(storage))
