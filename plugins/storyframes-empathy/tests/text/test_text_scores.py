"""Scores of texts by a language model: a service on this machine that misbehaves in many ways, and what is told."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from empathy_support.text_service import PLANTED, raw_service, service
from hypothesis import given
from hypothesis import strategies as st
from support.messages import missing, naming

from demo.stub_endpoint import Reply, StubEndpoint
from storyframes_empathy.text.budget import Budget, BudgetSpentError, Prices, most_tokens
from storyframes_empathy.text.cache import AnswerCache
from storyframes_empathy.text.endpoint import EndpointError, agree
from storyframes_empathy.text.llm import Asked, Service, ask, questions
from storyframes_empathy.text.prompts import REFLECTION, SHARE, SYSTEM, Prompt, messages, parse_answer
from storyframes_empathy.text.samples import Sample, SampleChoice, SampleError, read_said
from tasks.extractors.settings import CommonSettings, TranscriptSettings
from tasks.study.load import load_study

pytestmark = pytest.mark.usefixtures("private", "only_loopback")


def samples(count: int) -> list[Sample]:
    return [Sample(f"s{n}", f"p{n}", "st", "test", 4.0, f"I said {n}", "a story") for n in range(count)]


def asked_of(server: StubEndpoint, count: int, cache: Path, budget: Budget | None = None, **changes: Any) -> Asked:
    known = {"timeout_s": 20.0, "concurrency": 4} | changes
    chosen = Service(agree(server.url), "m", **known)
    return ask(
        questions(samples(count), Prompt.SHARE, chosen), chosen, AnswerCache(cache / "a.sqlite"), budget or Budget()
    )


NOW = {"retry-after-ms": "1"}  # do not wait long before asking again


# --- the number in an answer -----------------------------------------------------------------------------------------


def test_the_parsers_oracle() -> None:
    oracle = json.loads((Path(__file__).parents[1] / "data/parser.json").read_text())
    for answer, expected in oracle["cases"]:
        assert parse_answer(answer, *oracle["scale"]) == expected, answer


def test_another_scale() -> None:
    assert [parse_answer(answer, 1, 4) for answer in ("2.5", "0.5", "4,0", "5")] == [2.5, None, 4.0, None]


@given(st.integers(1, 999_999), st.sampled_from(["{}", "**{}**", "Score: {}.", '"{}"']))
def test_a_number_with_thousands_is_none_on_a_small_scale(number: int, around: str) -> None:
    """ "1,000" was read as 1.0, the most that a listener can empathize."""
    assert parse_answer(around.format(f"{number * 1_000:,}")) is None
    assert parse_answer(around.format(f"{number:,}"), 1, 4) == (number if number <= 4 else None)


@given(st.integers(0, 9_999))
def test_a_decimal_comma_is_a_decimal_point(number: int) -> None:
    """With three digits after it only where thousands cannot be meant."""
    text = f"0,{number:04d}"
    assert parse_answer(text) == float(text.replace(",", "."))
    assert parse_answer(text[:-1]) == float(text[:-1].replace(",", "."))
    assert [parse_answer(one, 1, 4) for one in ("1,000", "3,000", "3,00", "3,0000", "3.000")] == [None, None, 3, 3, 3]


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


def test_a_participant_is_found_by_role_label_or_name_and_uncertain_captions_are_left_out(tmp_path: Path) -> None:
    """Captions as Zoom writes them: what is sent has no name of who spoke."""
    said = [("Anna Berg", "one"), ("Ben", "two"), ("Anna Berg", "three")]
    cues = [f"00:0{n}.000 --> 00:0{n + 1}.000\n{who}: {text}\n" for n, (who, text) in enumerate(said)]
    (tmp_path / "t.vtt").write_text("WEBVTT\n\n" + "\n".join(cues))
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video,transcript\ns,p,v.avi,t.vtt\n")
    (tmp_path / "persons.csv").write_text("session_id,person_id,role,transcript_name\ns,b,listener,ben\n")
    study = load_study(tmp_path)
    for speaker, expected in (
        ("Anna Berg", "one three"),
        ("speaker_1", "one three"),
        ("Listener", "two"),
        ("BEN", "two"),
    ):
        assert read_said(study, "s", SampleChoice("session", speaker=speaker)) == expected
        lines = read_said(study, "s", SampleChoice("session", conversation=True, speaker=speaker))
        assert lines == ("A: one\nB: two\nA: three" if "one" in expected else "B: one\nA: two\nB: three")
    (tmp_path / "t.vtt").write_text("WEBVTT\n\n" + "\n".join(cues[:2]))
    with pytest.raises(SampleError, match=naming("of its captions may begin")):
        read_said(study, "s", SampleChoice("session", speaker="Anna Berg"))
    certain = CommonSettings(transcript=TranscriptSettings(speaker_prefixes=True))
    assert read_said(study, "s", SampleChoice("session", speaker="Anna Berg", common=certain)) == "one"


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
        agree(url, [host] if host else [])
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
    assert agree(url, [host] if host else []).host in url.lower()


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with service() as other:
        moved = Reply(status=307, headers={"Location": other.url + "/chat/completions"})
        with service(lambda request: moved) as first:
            told = asked_of(first, 1, tmp_path)
        assert not missing(told.stopped, "wants the texts to go")
        assert (len(first.requests), len(other.requests)) == (1, 0)


def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as proxy, service() as server:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert len(asked_of(server, 2, tmp_path).answers) == 2
        assert (len(proxy.requests), len(server.requests)) == (0, 2)


@pytest.mark.parametrize(
    ("url", "proxy", "agreed", "why"),
    [
        ("http://127.0.0.1:1/v1", "https://p.example.org:3128", [], "add --send-transcripts-to p.example.org"),
        ("http://127.0.0.1:1/v1", "http://p.example.org", ["p.example.org"], "add --send-transcripts-to http://p.exam"),
        (
            "https://a.example.org/v1",
            "https://p.example.org",
            ["a.example.org"],
            "through the proxy p.example.org, and",
        ),
        ("https://a.example.org/v1", "https://p.example.org", ["p.example.org"], "stories to a.example.org, and"),
        ("https://a.example.org/v1", "http://127.0.0.1:9", [], "add --send-transcripts-to a.example.org"),
        ("http://127.0.0.1:1/v1", "http://me:secret@p.example.org", [], "(not encrypted"),
        ("http://127.0.0.1:1/v1", "socks5://me:secret@p.example.org", ["p.example.org"], "no URL of a proxy"),
        ("http://127.0.0.1:1/v1", "me:secret@p.example.org:80", ["p.example.org"], "no URL of a proxy"),
    ],
)
def test_a_proxy_is_a_recipient(url: str, proxy: str, agreed: list[str], why: str) -> None:
    with pytest.raises(EndpointError) as refused:
        agree(url, agreed, proxy=proxy)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not agree(url, proxy="http://me:secret@p.example.org", sending=False).is_here
    assert "secret" not in repr(agree(url, proxy="http://me:secret@p.example.org", sending=False))


def test_texts_pass_a_proxy_that_was_agreed_to(tmp_path: Path) -> None:
    """A proxy on another machine makes the service one that texts leave for; the password goes to the proxy alone."""
    both = ["http://model.example.org", "http://p.example.org"]
    assert not agree("http://127.0.0.1:1/v1", both, proxy="http://p.example.org").is_here
    with service() as proxy:
        through = proxy.url.removesuffix("/v1").replace("http://", "http://me:word@")
        endpoint = agree("http://model.example.org/v1", both, proxy=through)
        asked = questions(samples(2), Prompt.SHARE, chosen := Service(endpoint, "m", timeout_s=20.0))
        told = ask(asked, chosen, AnswerCache(tmp_path / "a.sqlite"), Budget())
    assert len(told.answers) == 2
    assert {request["path"] for request in proxy.requests} == {"http://model.example.org/v1/chat/completions"}
    assert {request["headers"]["proxy-authorization"] for request in proxy.requests} == {"Basic bWU6d29yZA=="}


def test_of_an_encrypted_service_a_proxy_sees_the_name_alone(tmp_path: Path) -> None:
    with raw_service(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as (url, got):
        endpoint = agree("https://model.example.org/v1", ["model.example.org"], proxy=url.removesuffix("/v1"))
        asked = questions(samples(1), Prompt.SHARE, chosen := Service(endpoint, "m", key="planted-key", retries=0))
        told = ask(asked, chosen, AnswerCache(tmp_path / "a.sqlite"), Budget())
    assert told.unanswered.popitem()[1] == "it cannot be reached"
    (seen,) = got
    assert seen.startswith(b"CONNECT model.example.org:443 ")
    assert b"I said" not in seen
    assert b"planted-key" not in seen


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


COMPLETION = json.dumps(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "0.5"}}],
    }
).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def asked_of_raw(url: str, cache: Path, budget: Budget | None = None, **changes: Any) -> Asked:
    chosen = Service(agree(url), "m", **({"timeout_s": 20.0} | changes))
    asked = questions(samples(1), Prompt.SHARE, chosen)
    return ask(asked, chosen, AnswerCache(cache / "a.sqlite"), budget or Budget())


@pytest.mark.parametrize("trickles", ["head", "body", "chunks"])
def test_the_whole_answer_must_be_there_in_time(tmp_path: Path, trickles: str) -> None:
    """Every byte comes soon after the one before, and the whole takes four times as long as was allowed."""
    if trickles == "chunks":
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in COMPLETION + b" " * 200)
        answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    else:
        padding = b"X-Padding: " + b"x" * 400 + b"\r\n" if trickles == "head" else b""
        answer = HEAD + padding + b"Content-Length: %d\r\n\r\n" % len(COMPLETION) + COMPLETION
    pieces = 200
    with raw_service(answer, piece=len(answer) // pieces + 1, pause_s=2 / pieces) as (url, _):
        told = asked_of_raw(url, tmp_path, timeout_s=0.5, retries=1)
        assert not missing(told.unanswered.popitem()[1], "0.5 s", "asked 2 times")
        (answered,) = asked_of_raw(url, tmp_path, timeout_s=60).answers.values()
    assert answered.score == 0.5


def test_an_answer_has_at_most_a_megabyte(tmp_path: Path) -> None:
    def answer(length: int) -> bytes:
        body = COMPLETION.ljust(length)
        return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body

    with raw_service(answer(1_000_000)) as (url, _):
        (whole,) = asked_of_raw(url, tmp_path / "whole").answers.values()
    assert whole.score == 0.5
    budget = Budget(1.0)
    with raw_service(answer(1_000_001)) as (url, got):
        told = asked_of_raw(url, tmp_path / "long", budget, prices=Prices(1.0, 1.0))
    assert not missing(told.unanswered.popitem()[1], "than 1", "it answered with more")
    assert len(got) == 1  # it would be as long again
    assert budget.spent > 0


def test_a_packed_answer_is_not_unpacked(tmp_path: Path) -> None:
    """A few kilobytes may become gigabytes."""
    body = gzip.compress(COMPLETION.ljust(5_000_000))
    answer = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with raw_service(answer) as (url, _):
        told = asked_of_raw(url, tmp_path)
    assert not missing(told.unanswered.popitem()[1], "it answered in a packed")
    with service() as server:
        asked_of(server, 1, tmp_path / "other")
    assert server.requests[0]["headers"]["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "body", [b"", b"<html>hello</html>", b"{", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"]
)
def test_what_is_no_completion(tmp_path: Path, body: bytes) -> None:
    with service(lambda request: Reply(body=body)) as server:
        told = asked_of(server, 1, tmp_path, Budget(1.0), prices=Prices(1.0, 1.0))
    assert not missing(told.unanswered.popitem()[1], "what it answered is no")
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
        (one,) = questions(samples(1), Prompt.SHARE, Service(agree(server.url), "m"))
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
        (one,) = questions(samples(1), Prompt.SHARE, Service(agree(server.url), "m"))
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
