"""Scores of texts by a language model: a service on this machine that misbehaves in many ways, and what is told."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from demo.stub_endpoint import Reply, StubEndpoint, digest_number
from flows.cli.app import app
from storyframes import FeatureStore, SplitSpec
from storyframes.store.layout import create_store
from tasks.empathy.predictions import read_predictions
from tasks.empathy.run_record import RunError, read_run
from tasks.models.torchvision_import import import_torchvision
from tasks.text.answer import parse_answer
from tasks.text.budget import Budget, BudgetSpentError, Prices, most_tokens
from tasks.text.cache import AnswerCache
from tasks.text.endpoint import EndpointError, agree
from tasks.text.llm import Asked, Service, ask, questions
from tasks.text.prompts import REFLECTION, SHARE, SYSTEM, Prompt, messages
from tasks.text.samples import Sample

PLANTED = "zebrafinch"  # in what is said in one session; nowhere else


@pytest.fixture(autouse=True)
def private() -> Iterator[None]:
    """What is made is its owner's alone, as with the command in a process of its own."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module", autouse=True)
def only_loopback() -> Iterator[None]:
    """Whatever tries to speak to another machine fails the test."""
    patch = pytest.MonkeyPatch()
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            raise AssertionError(f"a connection to {address}")
        connect(self, address)

    patch.setattr(socket.socket, "connect", guarded)
    yield
    patch.undo()


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


def samples(count: int) -> list[Sample]:
    return [Sample(f"s{n}", f"p{n}", "st", "test", 4.0, f"I said {n}", "a story") for n in range(count)]


def asked_of(server: StubEndpoint, count: int, cache: Path, budget: Budget | None = None, **changes: Any) -> Asked:
    known = {"timeout_s": 20.0, "concurrency": 4} | changes
    chosen = Service(agree(server.url, None), "m", **known)
    return ask(
        questions(samples(count), Prompt.SHARE, chosen), chosen, AnswerCache(cache / "a.sqlite"), budget or Budget()
    )


NOW = {"retry-after-ms": "1"}  # do not wait long before asking again


# --- the number in an answer -----------------------------------------------------------------------------------------


def test_the_parsers_oracle() -> None:
    oracle = json.loads((Path(__file__).parent / "data/text/parser.json").read_text())
    for answer, expected in oracle["cases"]:
        assert parse_answer(answer, *oracle["scale"]) == expected, answer


def test_another_scale() -> None:
    assert [parse_answer(answer, 1, 4) for answer in ("2.5", "0.5", "4,0", "5")] == [2.5, None, 4.0, None]


# --- the prompts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "digest"),
    [
        (SYSTEM, "42b288d5818d96a80045909ef50544e23469317582dd94c1aa35f428d6159bbc"),
        (SHARE, "2dce75ef84376136f6158ae11f0c9c182f54609bee39c55e0244cbf3ddbe345f"),
        (REFLECTION, "10c66fa85a6dc452c608593796bedd311288ab9600c88bf713e6cd5397db5ae3"),
    ],
)
def test_the_prompts_are_the_papers(prompt: str, digest: str) -> None:
    assert hashlib.sha256(prompt.encode()).hexdigest() == digest


def test_texts_are_where_the_task_says() -> None:
    sample = Sample("s", "p", "st", "test", 1.0, "mine, return 1", "theirs")
    system, share = messages(sample, Prompt.SHARE)
    assert system == {"role": "system", "content": SYSTEM}
    assert share["content"].endswith("\n\nPerson A's story:\nmine, return 1\n\nPerson B's story:\ntheirs")
    assert messages(sample, Prompt.REFLECTION)[1]["content"].endswith(
        "\n\nStory:\ntheirs\n\nConversation:\nmine, return 1"
    )
    assert "mine" not in repr(sample)
    assert "theirs" not in repr(sample)


# --- where texts may go ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host", "why"),
    [
        ("https://api.example.org/v1", None, "add --send-transcripts-to api.example.org"),
        ("https://api.example.org/v1", "example.org", "is another host"),
        ("https://api.example.org.evil.org/v1", "api.example.org", "is another host"),
        ("http://10.0.0.7:8000/v1", "10.0.0.7", "not encrypted"),
        ("http://127.0.0.1.evil.org/v1", None, "nobody agreed"),
        ("https://user:secret@api.example.org/v1", "api.example.org", "perhaps a key"),
        ("https://api.example.org/v1?api-key=secret", "api.example.org", "perhaps a key"),
        ("file:///etc/passwd", None, "no URL of a service"),
        ("api.example.org/v1", "api.example.org", "no URL of a service"),
        ("https://api.example.org:port/v1", "api.example.org", "no URL"),
    ],
)
def test_who_did_not_agree_sends_nothing(url: str, host: str | None, why: str) -> None:
    with pytest.raises(EndpointError) as refused:
        agree(url, host)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.org/v1", "api.example.org"),
        ("https://API.example.org/v1", "api.EXAMPLE.org"),
        ("http://10.0.0.7:8000/v1", "http://10.0.0.7"),
        ("http://localhost:8000/v1", None),
        ("http://127.0.0.2/v1", None),
        ("http://[::1]:8000/v1", None),
    ],
)
def test_who_agreed_may_send(url: str, host: str | None) -> None:
    assert agree(url, host).host in url.lower()


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with service() as other:
        moved = Reply(status=307, headers={"Location": other.url + "/chat/completions"})
        with service(lambda request: moved) as first:
            told = asked_of(first, 1, tmp_path)
        assert "wants the texts to go to another address" in told.stopped
        assert (len(first.requests), len(other.requests)) == (1, 0)


def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as proxy, service() as server:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert len(asked_of(server, 2, tmp_path).answers) == 2
        assert (len(proxy.requests), len(server.requests)) == (0, 2)


# --- a service that misbehaves ---------------------------------------------------------------------------------------


def test_every_question_is_asked_once(tmp_path: Path) -> None:
    with service() as server:
        first = asked_of(server, 8, tmp_path)
        again = asked_of(server, 8, tmp_path)
    assert (first.requests, again.requests, len(server.requests)) == (8, 0, 8)
    assert again.answers == first.answers
    assert len({answer.score for answer in first.answers.values()}) > 4
    request = server.requests[0]
    assert (request["temperature"], request["seed"], request["max_tokens"], request["model"]) == (0.0, 0, 16, "m")


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_what_passes_is_asked_again(tmp_path: Path, status: int) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        with server.lock:
            first = sum(each["messages"] == request["messages"] for each in server.requests) == 1
        return Reply(status=status, headers=NOW) if first else Reply("0.25")

    with service(reply) as server:
        told = asked_of(server, 3, tmp_path)
    assert {answer.score for answer in told.answers.values()} == {0.25}
    assert (told.stopped, told.requests, len(server.requests)) == ("", 6, 6)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_will_not_pass_ends_it(tmp_path: Path, status: int) -> None:
    refusal = Reply(status=status, body=f'{{"error": {{"message": "you said {PLANTED}"}}}}'.encode())
    with service(lambda request: refusal) as server:
        told = asked_of(server, 30, tmp_path, concurrency=2)
    assert str(status) in told.stopped
    assert PLANTED not in told.stopped  # a server may repeat what it was sent
    assert len(server.requests) <= 4
    assert told.answers == {}


def test_a_service_that_fails_is_left_alone_after_three(tmp_path: Path) -> None:
    with service(lambda request: Reply(status=500, headers=NOW)) as server:
        told = asked_of(server, 20, tmp_path, concurrency=1)
    assert "500" in told.stopped
    assert len(server.requests) == 3 * 6


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        return Reply(status=500, headers=NOW) if "said 3" in str(request["messages"]) else Reply("0.5")

    with service(reply) as server:
        told = asked_of(server, 8, tmp_path, retries=1)
    assert (len(told.answers), len(told.unanswered), told.stopped) == (7, 1, "")
    assert len(server.requests) == 7 + 2


def test_a_service_that_is_down_or_slow(tmp_path: Path) -> None:
    with service() as server:
        pass
    assert "cannot be reached" in asked_of(server, 2, tmp_path, retries=0).unanswered.popitem()[1]
    never = threading.Event()

    def reply(request: dict[str, Any]) -> Reply:
        never.wait(20)
        return Reply()

    with service(reply) as server:
        told = asked_of(server, 1, tmp_path, retries=0, timeout_s=0.2)
        never.set()
    assert "no answer within 0.2 s" in told.unanswered.popitem()[1]


@pytest.mark.parametrize(
    "body", [b"", b"<html>hello</html>", b"{", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"]
)
def test_what_is_no_completion(tmp_path: Path, body: bytes) -> None:
    with service(lambda request: Reply(body=body)) as server:
        told = asked_of(server, 1, tmp_path, Budget(1.0), prices=Prices(1.0, 1.0))
    assert told.unanswered.popitem()[1] == "what it answered is no chat completion"
    assert told.answers == {}


@pytest.mark.parametrize("answer", ["I cannot help with that.", "7", "", "0.5 or 0.7"])
def test_an_answer_that_is_no_number_is_asked_for_once_more(tmp_path: Path, answer: str) -> None:
    with service(lambda request: Reply(answer)) as server:
        told = asked_of(server, 1, tmp_path)
        assert [request["seed"] for request in server.requests] == [0, 1]
        assert asked_of(server, 1, tmp_path).requests == 0  # it is known to have none
    (got,) = told.answers.values()
    assert (got.score, got.requests) == (None, 2)


# --- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_cap_is_never_passed(tmp_path: Path, concurrency: int) -> None:
    together = threading.Barrier(concurrency, timeout=5)

    def reply(request: dict[str, Any]) -> Reply:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.2)
        return Reply("0.5")

    prices = Prices(1000.0, 1000.0)
    with service(reply) as server:
        (one,) = questions(samples(1), Prompt.SHARE, Service(agree(server.url, None), "m"))
        cap = 5.5 * prices.cost(one.most_input_tokens, 16)
        budget = Budget(cap)
        told = asked_of(server, 40, tmp_path, budget, prices=prices, concurrency=concurrency)
    assert 0 < budget.spent <= cap
    assert "--max-cost" in told.stopped
    assert 5 <= len(server.requests) < 40
    assert len(told.answers) == len(server.requests)


def test_what_was_sent_and_never_answered_counts(tmp_path: Path) -> None:
    never = threading.Event()

    def reply(request: dict[str, Any]) -> Reply:
        never.wait(20)
        return Reply()

    prices = Prices(1000.0, 1000.0)
    with service(reply) as server:
        (one,) = questions(samples(1), Prompt.SHARE, Service(agree(server.url, None), "m"))
        cost = prices.cost(one.most_input_tokens, 16)
        budget = Budget(2.5 * cost)
        told = asked_of(server, 1, tmp_path, budget, prices=prices, timeout_s=0.2, retries=5)
        never.set()
    assert "--max-cost" in told.stopped
    assert len(server.requests) == 2
    assert budget.spent == pytest.approx(2 * cost)


def test_a_budget_reserves() -> None:
    budget = Budget(1.0)
    with budget.hold(0.6):
        with pytest.raises(BudgetSpentError), budget.hold(0.6):
            pass
        budget.paid(0.1)
    with budget.hold(0.6):
        pass
    assert budget.spent == 0.1
    assert most_tokens(["日本語"]) == 3
    assert most_tokens(["abcdef", ""]) == 2


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, demo_study: Path) -> tuple[Path, Path]:
    """A copy of the demo study in which a word is planted, and a store with its clip index."""
    folder = tmp_path_factory.mktemp("text")
    study = folder / "study"
    shutil.copytree(demo_study, study)
    transcript = study / "transcripts/p01-s01.json"
    transcript.write_text(transcript.read_text().replace("Last week", f"Last {PLANTED}"))
    config = folder / "c.toml"
    config.write_text("[clips]\nwindow = 15\nstride = 15\n")
    create_store(folder / "features")
    done = CliRunner().invoke(app, ["index", str(study), str(folder / "features"), "--config", str(config)])
    assert done.exit_code in (0, 1), done.output  # only frames' headers are known: that much is an index
    return study, folder / "features"


def scored(indexed: tuple[Path, Path], out: Path, url: str, *options: str, phase: str = "story_share") -> Any:
    study, features = indexed
    arguments = [study, features, "--phase", phase, "--out", out, "--model", "meta/m", "--base-url", url]
    return CliRunner().invoke(app, ["score", "llm", *map(str, arguments), *options])


def nothing_leaked(*places: Path) -> None:
    for place in places:
        for path in [place, *place.rglob("*")]:
            if path.is_file():
                assert PLANTED.encode() not in path.read_bytes(), path
            assert path.stat().st_mode & 0o077 == 0, path


def test_predictions_of_the_demo(
    indexed: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_LOG", "debug")
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    caplog.set_level(logging.DEBUG)
    out = tmp_path / "runs"
    with service() as server:
        done = scored(indexed, out, server.url, "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["samples"], told["missing"], told["requests"]) == (9, 0, 9)
        assert json.loads(scored(indexed, out, server.url, "--json").stdout)["requests"] == 0
    assert {request["headers"]["authorization"] for request in server.requests} == {"Bearer planted-key"}
    folder = out / "story_share/LLM-meta-m/t/0"
    table = pq.read_table(folder / "predictions.parquet").to_pandas()
    ratings = pd.read_csv(indexed[0] / "ratings.csv").set_index(["session_id", "story_id"])["empathy"]
    assert len(table) == len(ratings)
    for row in table.itertuples():
        assert row.rating == ratings[row.session_id, row.story_id]
    run = json.loads((folder / "run.json").read_text())
    assert (run["level"], run["modalities"], run["model"]) == ("story", "t", "LLM meta/m")
    assert read_predictions(folder, read_run(folder)).table["score"].notna().all()
    (folder / "run.json").write_text(json.dumps({**run, "fingerprint": "0" * 64}))  # of other scores
    with pytest.raises(RunError):
        read_predictions(folder, read_run(folder))
    (folder / "run.json").write_text(json.dumps(run))
    assert "planted-key" not in (folder / "run.json").read_text()
    sent = [request["messages"][1]["content"] for request in server.requests]
    assert sum(PLANTED in text for text in sent) == 3  # the session's stories
    assert not any("Hello. How was your" in text for text in sent)  # the robot's words
    nothing_leaked(out)
    assert PLANTED not in caplog.text + done.output


def test_predictions_are_split_as_training_runs_are(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    out, config = tmp_path / "runs", tmp_path / "c.toml"
    config.write_text("[train]\nsplit_shares = [0.5, 0.0, 0.5]\n")
    with service() as server:
        done = scored(indexed, out, server.url, "--json", "--splits", "0,1,2,3", "--config", str(config))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["requests"] == 9  # whatever the split, a question is asked once
    assert told["folders"] == [str(out / f"story_share/LLM-meta-m/t/{seed}") for seed in range(4)]
    index, found = FeatureStore(indexed[1]).clips(), []
    for seed, folder in enumerate(told["folders"]):
        split = SplitSpec(seed, (0.5, 0, 0.5)).applied(index).drop_duplicates("participant_id")
        table = pq.read_table(Path(folder) / "predictions.parquet").to_pandas().drop_duplicates("participant_id")
        found.append(dict(zip(table["participant_id"], table["split"], strict=True)))
        assert found[-1] == dict(zip(split["participant_id"], split["split"], strict=True))
        assert json.loads((Path(folder) / "run.json").read_text())["seed"] == seed
    assert {"p01": "test", "p02": "train"} in found
    assert {"p01": "train", "p02": "test"} in found
    done = CliRunner().invoke(app, ["evaluate", str(out), "--level", "story"])
    assert (done.exit_code, "| LLM meta/m | t | 4 |" in done.stdout) == (0, True), done.output
    for text in ("", "0,0", "0;1", "-1"):
        done = scored(indexed, tmp_path / "other", server.url, f"--splits={text}")
        assert (done.exit_code, "--splits" in done.output) == (2, True), done.output
    nothing_leaked(out)


def test_a_reflection_is_the_conversation(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    with service() as server:
        assert scored(indexed, tmp_path / "runs", server.url, phase="reflection").exit_code == 0
    assert all("Conversation:\nA: " in request["messages"][1]["content"] for request in server.requests)


def test_without_agreement_nothing_leaves(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    refused = scored(indexed, out, "https://api.example.org/v1")
    assert refused.exit_code == 2
    assert "--send-transcripts-to api.example.org" in refused.output
    agreed = scored(indexed, out, "https://api.example.org/v1", "--send-transcripts-to", "api.example.org")
    assert agreed.exit_code == 1  # nobody has consented
    assert "consent_external" in agreed.output
    assert not out.exists()


def test_a_dry_run_sends_nothing(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    options = ("--dry-run", "--price-in", "10", "--price-out", "30", "--json")
    study = tmp_path / "study"
    shutil.copytree(indexed[0], study)
    (study / "participants.csv").write_text("participant_id,consent_external\np01,true\np02,false\n")
    done = scored((study, indexed[1]), out, "https://api.example.org/v1", *options)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["samples"] == 6
    assert list(told["left_out"]) == ["p02-s01"]
    assert told["cost_at_most"] > 0
    assert not out.exists()


def test_what_failed_leaves_no_predictions(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    with service(lambda request: Reply(status=401, body=PLANTED.encode())) as server:
        done = scored(indexed, out, server.url)
    assert done.exit_code == 1
    assert "does not accept the key" in done.output
    assert "No predictions were written" in done.output
    assert not list(out.rglob("predictions.parquet"))
    assert PLANTED not in done.output
    nothing_leaked(out)


def test_a_damaged_transcript_fails_alone(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(indexed[0], study)
    (study / "transcripts/p02-s01.json").write_text("{")
    with service() as server:
        done = scored((study, indexed[1]), tmp_path / "runs", server.url, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["samples"], list(told["failed"])) == (6, ["p02-s01"])


def test_bad_use(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    cases = [
        (("--max-cost", "1"), "story_share", "--price-in and --price-out"),
        ((), "warm_up", "--prompt is share or reflection"),
        (("--prompt", "share"), "story_shore", "no phase 'story_shore'"),
    ]
    for options, phase, why in cases:
        done = scored(indexed, tmp_path / "runs", url, *options, phase=phase)
        assert (done.exit_code, why in done.output) == (2, True), done.output
    done = scored(indexed, tmp_path / "runs", url, "--speaker", "visitor")
    assert done.exit_code == 1
    assert "--speaker says what the transcripts call the participant" in done.output


def test_prompts_are_kept_only_where_asked(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    with service() as server:
        assert scored(indexed, tmp_path / "runs", server.url, "--keep-prompts").exit_code == 0
    kept = (tmp_path / "runs/answers.sqlite").read_bytes()
    assert PLANTED.encode() in kept
    assert os.stat(tmp_path / "runs/answers.sqlite").st_mode & 0o077 == 0


# --- BART ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BART of random weights, as transformers saves one, that reads 24 tokens."""
    import_torchvision()
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BartConfig, BartModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bart")
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
    return folder


def test_bart_is_the_cosine_of_mean_states(tiny_bart: Path) -> None:
    """Beside transformers by itself, a text at a time: padding and order change nothing."""
    import torch
    from transformers import AutoTokenizer, BartModel

    from tasks.text.bart import Bart

    pairs = [("one two", "the story is one"), ("I said my home is the one", "a"), ("two", "two"), ("the " * 40, "one")]
    made = Bart(tiny_bart).score([Sample("s", "p", "st", "test", 1.0, mine, story) for mine, story in pairs])
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bart), BartModel.from_pretrained(tiny_bart).eval()

    def vector(text: str) -> torch.Tensor:
        tokens = tokenizer(text, truncation=True, max_length=24, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            return model(tokens).last_hidden_state[0].mean(0)

    expected = [float(torch.cosine_similarity(vector(mine), vector(story), dim=0)) for mine, story in pairs]
    assert made.scores == pytest.approx(expected, abs=1e-5)
    assert made.scores[2] == pytest.approx(1)
    assert len(set(made.scores.round(4))) == 4
    assert made.truncated == 1


def test_bart_of_the_demo(indexed: tuple[Path, Path], tiny_bart: Path, tmp_path: Path) -> None:
    study, features = indexed
    arguments = [study, features, "--phase", "reflection", "--out", tmp_path / "runs", "--weights", tiny_bart, "--json"]
    done = CliRunner().invoke(app, ["score", "bart", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["samples"], told["missing"]) == (9, 0)
    assert told["truncated"] > 0
    run = json.loads((Path(told["folder"]) / "run.json").read_text())
    assert run["caveats"] == [f"{told['truncated']} texts longer than the model reads"]
    nothing_leaked(tmp_path / "runs")


def test_no_bart(indexed: tuple[Path, Path], tiny_bart: Path, tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    shutil.copytree(tiny_bart, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    broken = tmp_path / "broken"
    shutil.copytree(tiny_bart, broken)
    (broken / "model.safetensors").write_bytes(b"no")
    study, features = indexed
    for folder, why in ((pickled, "has no model.safetensors: --weights"), (broken, "cannot be loaded as a BART model")):
        arguments = [study, features, "--phase", "reflection", "--out", tmp_path / "runs", "--weights", folder]
        done = CliRunner().invoke(app, ["score", "bart", *map(str, arguments)])
        assert (done.exit_code, why in done.output) == (2, True), done.output
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("prefix", ["", "model.", "bart.model."])
def test_a_checkpoint_of_lightning_becomes_the_same_model(tiny_bart: Path, tmp_path: Path, prefix: str) -> None:
    import torch
    from safetensors.torch import load_file

    from tasks.text.bart import Bart

    state = {f"{prefix}{name}": tensor for name, tensor in load_file(tiny_bart / "model.safetensors").items()}
    content = {"state_dict": {**state, "head.weight": torch.zeros(3)}, "epoch": 3, "hyper_parameters": {"lr": 5e-6}}
    torch.save(content, tmp_path / "a.ckpt")
    arguments = ["score", "convert", tmp_path / "a.ckpt", "--base", tiny_bart, "--out", tmp_path / "made"]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert "1 tensor of other parts left out" in done.output
    pair = [Sample("s", "p", "st", "test", 1.0, "one two", "the story is one")]
    assert Bart(tmp_path / "made").score(pair).scores == pytest.approx(Bart(tiny_bart).score(pair).scores, abs=0)
    again = CliRunner().invoke(app, [*map(str, arguments)])
    assert (again.exit_code, "give a new folder" in again.output) == (2, True)


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was-run",)


def test_a_checkpoint_that_would_be_run_is_refused(
    tiny_bart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    for content, why in (
        ({"state_dict": {"shared.weight": torch.zeros(1)}, "callback": _Evil()}, "refused"),
        ({"state_dict": {"shared.weight": torch.zeros(1)}}, "lacks"),
        ({"state_dict": {}}, "holds no tensors"),
        ({"weight": torch.zeros(1)}, "no tensor whose name ends with shared.weight"),
    ):
        torch.save(content, tmp_path / "a.ckpt")
        arguments = ["score", "convert", "a.ckpt", "--base", str(tiny_bart), "--out", "made"]
        done = CliRunner().invoke(app, arguments)
        assert (done.exit_code, why in done.output) == (2, True), done.output
    (tmp_path / "a.ckpt").write_bytes(b"no")
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ckpt"]


# --- pairs of stories, in both orders --------------------------------------------------------------------------------

STORIES = ("story_a,story_b,empathy,moral\n"
           f"one {PLANTED},two,1,2\nthree,four,3,\nfive,six {PLANTED},4,1\n")  # fmt: skip


def first_story(request: dict[str, Any]) -> str:
    """The one that is told first."""
    content: str = request["messages"][1]["content"]
    return content.split("First story:\n")[1].split("\n\nSecond story:")[0]


def favours_odd(request: dict[str, Any]) -> Reply:
    """.7 of the scale where the pair's story_a comes first, else .3."""
    return Reply("3.1" if first_story(request).split()[0] in ("one", "three", "five") else "1.9")


def asked_pairs(folder: Path, url: str, *options: str) -> Any:
    (folder / "pairs.csv").write_text(STORIES)
    given = [folder / "pairs.csv", "--out", folder / "out" / "scores.csv", "--model", "m", "--base-url", url]
    (folder / "out").mkdir(exist_ok=True)
    return CliRunner().invoke(app, ["pairs", "score-llm", *map(str, given), *options])


def test_the_mean_of_both_orders_counts(tmp_path: Path) -> None:
    with service(favours_odd) as server:
        done = asked_pairs(tmp_path, server.url, "--aspect", "empathy", "--aspect", "moral", "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["requests"], len(server.requests)) == (12, 12)
        assert told["scores"]["moral"] == {"pairs": 3, "missing": 0, "order_gap": pytest.approx(1.2)}
        assert len({one["messages"][1]["content"].split("First story")[0] for one in server.requests}) == 2
        table = pd.read_csv(tmp_path / "out/scores.csv")
        assert set(table.columns[:3]) == {"row", "empathy", "moral"}
        for aspect in ("empathy", "moral"):
            assert table[f"llm_{aspect}"].tolist() == pytest.approx([2.5] * 3)
            assert table[f"llm_{aspect}_gap"].tolist() == pytest.approx([1.2] * 3)
            assert table[f"llm_{aspect}_ab"].tolist() == [3.1] * 3
            assert table[f"llm_{aspect}_ba"].tolist() == [1.9] * 3
        record = json.loads((tmp_path / "out/scores.csv.run.json").read_text())
        assert "own wording" in " ".join(record["caveats"])
        nothing_leaked(tmp_path / "out")
        (tmp_path / "out/scores.csv").unlink()
        again = asked_pairs(tmp_path, server.url, "--aspect", "moral", "--json")
        assert json.loads(again.stdout)["requests"] == 0
    shown = CliRunner().invoke(
        app,
        [
            "pairs",
            "evaluate",
            str(tmp_path / "out/scores.csv"),
            "--ab",
            "llm_moral_ab",
            "--ba",
            "llm_moral_ba",
            "--json",
        ],
    )
    assert json.loads(shown.stdout)["rows"][0]["order_gap"] == pytest.approx(1.2)


@pytest.mark.parametrize("answer", ["0.9", "4.5", "I cannot say"])
def test_a_pair_that_lacks_one_order_is_missing(tmp_path: Path, answer: str) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        return Reply(answer if first_story(request) == "four" else "4")

    with service(reply) as server:
        done = asked_pairs(tmp_path, server.url, "--json")
        assert len(server.requests) == 7  # the one without a number once more
    assert json.loads(done.stdout)["scores"]["empathy"] == {"pairs": 2, "missing": 1, "order_gap": 0}
    table = pd.read_csv(tmp_path / "out/scores.csv")
    assert table["llm_empathy"].isna().tolist() == [False, True, False]
    assert table["llm_empathy_ab"].tolist() == [4, 4, 4]
    assert table["llm_empathy_ba"].isna().tolist() == [False, True, False]


def test_the_stand_in_knows_the_scale_of_pairs(tmp_path: Path) -> None:
    with service() as server:
        done = asked_pairs(tmp_path, server.url, "--json")
    assert json.loads(done.stdout)["scores"]["empathy"]["missing"] == 0


def test_no_pair_is_sent_without_a_word(tmp_path: Path) -> None:
    """The socket guard fails whatever would connect elsewhere; a host that resolves is not needed."""
    elsewhere = "https://api.example.org/v1"
    for options in ((), ("--send-transcripts-to", "example.org")):
        done = asked_pairs(tmp_path, elsewhere, *options)
        assert done.exit_code == 2
        assert "--send-transcripts-to api.example.org" in done.stderr
    dry = asked_pairs(tmp_path, elsewhere, "--dry-run", "--price-in", "10", "--price-out", "30", "--json")
    told = json.loads(dry.stdout)
    assert (told["pairs"], told["questions"]) == (3, 6)
    assert told["cost_at_most"] > 0
    with service() as server:
        capped = asked_pairs(
            tmp_path, server.url, "--max-cost", "0.0001", "--price-in", "10", "--price-out", "30", "--json"
        )
        assert (capped.exit_code, server.requests) == (1, [])
        assert asked_pairs(tmp_path, server.url, "--aspect", "plot").exit_code == 2
        assert asked_pairs(tmp_path, server.url, "--max-cost", "1").exit_code == 2
    assert not (tmp_path / "out/scores.csv").exists()
    nothing_leaked(tmp_path / "out")


def test_a_failing_service_leaves_no_scores_of_pairs(tmp_path: Path) -> None:
    with service(lambda request: Reply(status=401, body=PLANTED.encode())) as server:
        done = asked_pairs(tmp_path, server.url)
    assert done.exit_code == 1
    assert "does not accept the key" in done.output
    assert PLANTED not in done.output
    assert not (tmp_path / "out/scores.csv").exists()
    nothing_leaked(tmp_path / "out")


# --- training on pairs of stories ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_encoder(tiny_bart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a sentence-transformers model with random weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("encoder")
    words = Transformer(str(tiny_bart))
    SentenceTransformer(modules=[words, Pooling(16)], device="cpu").save_pretrained(str(folder))
    return folder


def labelled(folder: Path) -> Path:
    path = folder / "pairs.csv"
    rows = [f"one {PLANTED},one two,4", "one,home,1", "two my,three said,2", "the story,story is,3", "I said,my home,"]
    path.write_text("\n".join(["story_a,story_b,empathy", *rows]) + "\n")
    return path


@pytest.mark.parametrize(("name", "key"), [(one, one) for one in ("cosine", "cosent", "angle")] + [
    ("contrastive", "contrastive_at_half")
])  # fmt: skip
def test_the_oracle_of_the_losses(name: str, key: str) -> None:
    import torch

    from tasks.pairs.finetune import Loss

    oracle = json.loads((Path(__file__).parent / "data/text/losses.json").read_text())
    a, b, labels = (torch.tensor(oracle[one], dtype=torch.float64) for one in ("a", "b", "labels"))
    if name == "contrastive":  # labels are cut in two at half of the scale, where a score is 2.5
        labels = torch.tensor(Loss.CONTRASTIVE.labels(1 + 3 * labels.numpy()))
    else:
        labels = torch.tensor(Loss(name).labels(1 + 3 * labels.numpy()))
    made = Loss(name).of(torch.nn.Identity()).compute_loss_from_embeddings([a, b], labels)
    assert float(made) == pytest.approx(oracle[key], rel=1e-6)


@pytest.mark.parametrize("name", ["cosine", "cosent", "angle", "contrastive"])
def test_a_step_lowers_each_loss(tiny_encoder: Path, name: str) -> None:
    import numpy as np
    import torch

    from tasks.extractors.sbert import SbertSettings, load_model
    from tasks.pairs.finetune import Loss, Recipe, batch_loss, train

    model = load_model(SbertSettings(model=tiny_encoder))
    pairs = [("one", "one two"), ("one", "home"), ("two my", "three said"), ("the story", "story is")]
    targets = Loss(name).labels(np.array([4.0, 1, 2, 3]))
    model.eval()
    for module in model.modules():  # what is compared is the loss without chance
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = Loss(name).of(model)
    with torch.no_grad():
        before = float(batch_loss(model, loss, pairs, targets))
    train(model, pairs, targets, Recipe(loss=Loss(name), epochs=1, learning_rate=1e-3), lambda epoch, mean: None)
    with torch.no_grad():
        after = float(batch_loss(model, loss, pairs, targets))
    assert after < before


def test_a_model_is_trained_alike_twice_and_keeps_no_text(tiny_encoder: Path, tmp_path: Path) -> None:
    path = labelled(tmp_path)
    records = []
    for name, seed in (("first", "1"), ("again", "1"), ("other", "2")):
        given = [path, "--out", tmp_path / name, "--model", tiny_encoder, "--seed", seed, "--loss", "cosent"]
        options = ["--batch-size", "2", "--learning-rate", "0.001", "--json"]
        done = CliRunner().invoke(app, ["pairs", "finetune", *map(str, given), *options])
        assert done.exit_code == 0, done.output
        records.append(json.loads(done.stdout))
        nothing_leaked(tmp_path / name)
    first, again, other = records
    assert (first["files"], first["loss"]) == (again["files"], again["loss"])
    assert first["files"]["model.safetensors"] != other["files"]["model.safetensors"]
    assert first["begun_with"]["model.safetensors"] != first["files"]["model.safetensors"]
    assert (first["pairs"], first["without_label"]) == (4, 1)
    scored = ["pairs", "score", str(path), "--out", str(tmp_path / "s.csv"), "--model", str(tmp_path / "first")]
    done = CliRunner().invoke(app, scored)
    assert done.exit_code == 0, done.output


def test_what_nothing_can_be_trained_on(tiny_encoder: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    for text, options, said in [
        ("story_a,story_b,moral\na,b,1\n", [], "no labels of empathy"),
        ("story_a,story_b,empathy\na,b,5\n", [], "row 2: empathy = 5 is outside 1 to 4"),
        ("story_a,story_b,empathy\na,b,3\na,c,4\n", ["--loss", "contrastive"], "all the same"),
        ("story_a,story_b,empathy\na,b,3\n", ["--loss", "hinge"], "--loss is cosine"),
    ]:
        path.write_text(text)
        given = ["pairs", "finetune", str(path), "--out", str(tmp_path / "m"), "--model", str(tiny_encoder), *options]
        done = CliRunner().invoke(app, given)
        assert (done.exit_code, said in done.stderr) == (2, True), done.output
    assert not (tmp_path / "m").exists()
