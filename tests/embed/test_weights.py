from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.messages import naming
from support.stores import local

from tasks.models.digests import DigestCache
from tasks.models.weights import MODELS, ModelFile, WeightsError, fetch, torch_hub_folder

CONTENT = b"weights" * 1000


@pytest.fixture
def server():
    """A loopback server that gives one file."""
    served = {"content": CONTENT}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(served["content"])))
            self.end_headers()
            self.wfile.write(served["content"])

        def log_message(self, *args) -> None: ...

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    served["url"] = f"http://127.0.0.1:{httpd.server_port}/file"
    yield served
    httpd.shutdown()


def model(server: dict, content: bytes = CONTENT, **changes) -> ModelFile:
    digest = hashlib.sha256(content).hexdigest()
    return ModelFile("m", f"m-{digest[:8]}.bin", server["url"], digest, len(content), "none", "tests", **changes)


def test_a_download_is_checked_and_put_in_its_place(server) -> None:
    seen = []
    path = fetch(model(server), lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert model(server).path_here == path
    assert seen[-1] == (7000, 7000)
    assert path.stat().st_mode & 0o022 == 0


def test_a_download_that_is_something_else_is_not_kept(server) -> None:
    other = model(server, b"what was published")
    with pytest.raises(WeightsError, match="was published: nothing was kept"):
        fetch(other)
    assert other.path_here is None
    assert not [path for path in other.path.parent.iterdir() if path.name.startswith(f".{other.filename}")]


def test_the_member_of_an_archive_is_kept(server) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("vectors.txt", "the 0.1")
        archive.writestr("readme", "x")
    server["content"] = buffer.getvalue()
    path = fetch(model(server, buffer.getvalue(), member="vectors.txt"))
    assert path.read_text() == "the 0.1"


def test_no_connection_says_what_to_do_by_hand() -> None:
    absent = ModelFile("m", "m.bin", "http://127.0.0.1:9/m.bin", "0" * 64, 1, "none", "tests")
    with pytest.raises(WeightsError, match=naming("m.bin", "fetched")):
        fetch(absent)


def test_torchs_cache_is_where_torch_looks(monkeypatch, tmp_path: Path) -> None:
    import torch

    assert torch_hub_folder() == Path(torch.hub.get_dir()) / "checkpoints"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch_hub_folder() == Path(torch.hub.get_dir()) / "checkpoints"


def test_every_model_names_its_source_checksum_and_licence() -> None:
    for name, known in MODELS.items():
        assert known.name == name
        assert known.url.startswith("https://" if known.sha256 else "http")
        assert len(known.sha256) == (0 if name.startswith("dope") else 64)
        assert known.license


def test_a_file_that_has_just_changed_is_read_again_and_one_that_is_older_is_not(tmp_path: Path) -> None:
    """Within one tick of the clock a file may change again and keep its time and its size."""
    file, cache = tmp_path / "f", DigestCache(local(tmp_path), "digests.json", tmp_path)
    one, two = (hashlib.sha256(content).hexdigest() for content in (b"one", b"two"))
    file.write_bytes(b"one")
    now_ns = file.stat().st_mtime_ns
    assert cache.sha256(file) == one
    file.write_bytes(b"two")
    os.utime(file, ns=(now_ns, now_ns))
    assert cache.sha256(file) == two
    an_hour_ago_ns = now_ns - 3600 * 10**9
    for content in (b"two", b"one"):
        file.write_bytes(content)
        os.utime(file, ns=(an_hour_ago_ns, an_hour_ago_ns))
        assert cache.sha256(file) == two
