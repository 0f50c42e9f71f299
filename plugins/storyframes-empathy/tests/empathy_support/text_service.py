"""A service that answers as a language model does, on this machine, and what must never be found afterwards."""

from __future__ import annotations

import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from demo.stub_endpoint import Reply, StubEndpoint, digest_number
from tasks.models.libraries import import_torchvision

PLANTED = "zebrafinch"  # in what is said in one session; nowhere else


@contextmanager
def service(reply: Callable[[dict[str, Any]], Reply] = digest_number) -> Iterator[StubEndpoint]:
    server = StubEndpoint(reply)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw_service(answer: bytes, *, piece: int = 0, pause_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads each request and sends these bytes, ``piece`` at once; its URL, and the requests it got."""
    requests: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                head += line
            length = re.search(rb"content-length: (\d+)", head.lower())
            requests.append(head + self.rfile.read(int(length.group(1)) if length else 0))
            with suppress(OSError):  # whoever asked has gone
                for at in range(0, len(answer), piece or len(answer)):
                    self.wfile.write(answer[at : at + (piece or len(answer))])
                    time.sleep(pause_s)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
        server.shutdown()
        thread.join()


def nothing_leaked(*places: Path) -> None:
    for place in places:
        for path in [place, *place.rglob("*")]:
            if path.is_file():
                assert PLANTED.encode() not in path.read_bytes(), path
            assert path.stat().st_mode & 0o077 == 0, path


def write_tiny_bart(folder: Path) -> None:
    """A BART of random weights, as transformers saves one, that reads 24 tokens."""
    import_torchvision()
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BartConfig, BartModel, PreTrainedTokenizerFast

    words = "a i is the one two three story I said my home".split()
    vocabulary = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    size = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 24}
    BartModel(BartConfig(vocab_size=len(vocabulary), **layers, **size)).save_pretrained(folder)
