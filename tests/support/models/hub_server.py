"""A loopback server that speaks as much of the Hugging Face hub's protocol as fetching a model needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _entry(folder: Path, name: str) -> dict[str, object]:
    content = (folder / name).read_bytes()
    return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha256(content).hexdigest()}


@contextmanager
def hub_server(repositories: Mapping[str, Path], gated: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Serve folders as repositories, each of one commit; gives the URL, and the list that requests are noted in."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            asked.append(path)
            api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?", path)
            file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            found = api or file
            if found is None or found[1] not in repositories:
                self._answer(404, b"", **{"X-Error-Code": "RepoNotFound"})
            elif found[1] in gated:
                self._answer(403, b"", **{"X-Error-Code": "GatedRepo"})
            elif found[2] not in (None, "main", COMMIT):
                self._answer(404, b"", **{"X-Error-Code": "RevisionNotFound"})
            elif api:
                folder = repositories[found[1]]
                names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
                siblings = [{"rfilename": name} for name in names]
                told = {"id": found[1], "modelId": found[1], "sha": COMMIT, "siblings": siblings}
                self._answer_json([_entry(folder, name) for name in names] if "/tree/" in path else told)
            else:
                content = (repositories[found[1]] / found[3]).read_bytes()
                etag = hashlib.sha256(content).hexdigest()
                self._answer(200, content, **{"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

        def _answer_json(self, told: object) -> None:
            self._answer(200, json.dumps(told).encode(), **{"Content-Type": "application/json"})

        def _answer(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
