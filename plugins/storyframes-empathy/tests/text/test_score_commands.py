"""``storyframes empathy score``: the demo study scored by a language model and by BART."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from empathy_support.text_service import PLANTED, nothing_leaked, service, write_tiny_bart
from support.messages import missing, unlike
from typer.testing import CliRunner

from demo.stub_endpoint import Reply
from flows.cli.app import app as storyframes_app
from storyframes import FeatureStore, SplitSpec
from storyframes.store.layout import create_store
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import RunError, read_run
from storyframes_empathy.text.samples import Sample

pytestmark = pytest.mark.usefixtures("private", "only_loopback")


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
    done = CliRunner().invoke(storyframes_app, ["index", str(study), str(folder / "features"), "--config", str(config)])
    assert done.exit_code in (0, 1), done.output  # only frames' headers are known: that much is an index
    return study, folder / "features"


def scored(indexed: tuple[Path, Path], out: Path, url: str, *options: str, phase: str = "story_share") -> Any:
    study, features = indexed
    arguments = [study, features, "--phase", phase, "--out", out, "--model", "meta/m", "--base-url", url]
    return CliRunner().invoke(app, ["score", "llm", *map(str, arguments), *options])


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


@pytest.mark.slow
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


def test_a_proxy_needs_agreement_and_consent_as_a_service_does(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    """The service is on this machine, and texts would leave it all the same."""
    out, proxy = tmp_path / "runs", ("--proxy", "http://proxy.example.org:3128")
    with service() as server:
        refused = scored(indexed, out, server.url, *proxy)
        agreed = scored(indexed, out, server.url, *proxy, "--send-transcripts-to", "http://proxy.example.org")
    assert (refused.exit_code, agreed.exit_code) == (2, 1), refused.output + agreed.output
    assert "--send-transcripts-to http://proxy.example.org" in refused.output.replace("\n", " ")
    assert "consent_external" in agreed.output  # nobody has consented
    assert server.requests == []
    assert not out.exists()
    with service() as here:  # nothing leaves this machine
        done = scored(indexed, out, "http://127.0.0.1:1/v1", "--proxy", here.url.removesuffix("/v1"))
    assert done.exit_code == 0, done.output
    assert [request["path"] for request in here.requests] == ["http://127.0.0.1:1/v1/chat/completions"] * 9


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


def test_answers_without_any_number_are_a_failure(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    with service(lambda request: Reply("I cannot say")) as server:
        done = scored(indexed, tmp_path / "runs", server.url)
    assert (done.exit_code, "no sample has a score" in done.output) == (1, True), done.output


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
    assert not missing(done.output, "--speaker says", "what the transcripts call the")


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
    folder = tmp_path_factory.mktemp("bart")
    write_tiny_bart(folder)
    return folder


def test_bart_is_the_cosine_of_mean_states(tiny_bart: Path) -> None:
    """Beside transformers by itself, a text at a time: padding and order change nothing."""
    import torch
    from transformers import AutoTokenizer, BartModel

    from storyframes_empathy.text.bart import Bart

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
    assert not unlike(run["caveats"], (f"{told['truncated']} texts", "longer than the model reads"))
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

    from storyframes_empathy.text.bart import Bart

    state = {f"{prefix}{name}": tensor for name, tensor in load_file(tiny_bart / "model.safetensors").items()}
    content = {"state_dict": {**state, "head.weight": torch.zeros(3)}, "epoch": 3, "hyper_parameters": {"lr": 5e-6}}
    torch.save(content, tmp_path / "a.ckpt")
    arguments = ["score", "convert", tmp_path / "a.ckpt", "--base", tiny_bart, "--out", tmp_path / "made"]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert not missing(done.output, "1 tensor", "of other parts left out")
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
