"""An object store that is far away: a folder served as S3 serves a bucket, after a round trip's time, over one line.

    python -m benchmarks.reading.slow_object_store FOLDER LATENCY_S BYTES_PER_S

It prints its port. Only what reading takes is there: GET (whole, or a range) and HEAD of one object.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote

BUCKET = "bench"


@contextmanager
def slow_object_store(folder: Path, latency_s: float, bytes_per_s: float) -> Iterator[dict[str, object]]:
    """The options with which ``FeatureStore("s3://bench/…")`` reads from a server in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.reading.slow_object_store",
        str(folder),
        str(latency_s),
        str(bytes_per_s),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as server:
        assert server.stdout
        port = int(server.stdout.readline())
        try:
            yield {
                "endpoint": f"http://127.0.0.1:{port}",
                "region": "us-east-1",
                "skip_signature": True,
                "client_options": {"allow_http": True},
            }
        finally:
            server.kill()


class Line:
    """What all answers share: each takes its bytes' time of it."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    async def carry(self, nbytes: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + nbytes / self._bytes_per_s
        await asyncio.sleep(self._free_at - now)


async def answer(
    folder: Path, latency_s: float, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Requests of one connection, one after the other."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            await asyncio.sleep(latency_s)
            path = folder / unquote(target.partition("?")[0]).removeprefix(f"/{BUCKET}/")
            if not path.is_file():
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            size = path.stat().st_size
            start, stop = span(headers.get("range", ""), size)
            status = "206 Partial Content" if "range" in headers else "200 OK"
            modified = formatdate(path.stat().st_mtime, usegmt=True)
            writer.write(
                f'HTTP/1.1 {status}\r\nContent-Length: {stop - start}\r\nETag: "{size:x}"\r\n'
                f"Last-Modified: {modified}\r\nContent-Range: bytes {start}-{stop - 1}/{size}\r\n\r\n".encode()
            )
            await writer.drain()
            if method == "GET":
                await line.carry(stop - start)
                with path.open("rb") as file:
                    await asyncio.get_running_loop().sendfile(writer.transport, file, start, stop - start)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


def span(asked: str, size: int) -> tuple[int, int]:
    """Which bytes a Range header asks for."""
    if not asked:
        return 0, size
    first, _, last = asked.removeprefix("bytes=").partition("-")
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


async def serve(folder: Path, latency_s: float, bytes_per_s: float) -> None:
    line = Line(bytes_per_s)
    server = await asyncio.start_server(lambda r, w: answer(folder, latency_s, line, r, w), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
