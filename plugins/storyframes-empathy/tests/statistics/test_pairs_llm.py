"""``storyframes empathy pairs score-llm`` and ``finetune``: pairs of stories in both orders, an encoder trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from empathy_support.text_service import PLANTED, nothing_leaked, service, write_tiny_bart
from typer.testing import CliRunner

from demo.stub_endpoint import Reply
from storyframes_empathy.commands.app import app

pytestmark = pytest.mark.usefixtures("private", "only_loopback")


@pytest.fixture(scope="module")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BART of random weights, as transformers saves one, that reads 24 tokens."""
    folder = tmp_path_factory.mktemp("bart")
    write_tiny_bart(folder)
    return folder


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


def test_answers_without_any_number_are_a_failure(tmp_path: Path) -> None:
    with service(lambda request: Reply("I cannot say")) as server:
        done = asked_pairs(tmp_path, server.url)
        assert (done.exit_code, "no pair has a score" in done.output) == (1, True)
        (tmp_path / "out/scores.csv").unlink()
        again = asked_pairs(tmp_path, server.url, "--json")
    assert (again.exit_code, json.loads(again.stdout)["scores"]["empathy"]["pairs"]) == (1, 0)


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
    with service() as server:
        done = asked_pairs(tmp_path, server.url, "--proxy", "http://proxy.example.org:3128")
        assert (done.exit_code, server.requests) == (2, [])
        assert "--send-transcripts-to http://proxy.example.org" in done.stderr.replace("\n", " ")
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

    from storyframes_empathy.pairs.finetune import Loss

    oracle = json.loads((Path(__file__).parents[1] / "data/losses.json").read_text())
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

    from storyframes_empathy.pairs.finetune import Loss, Recipe, batch_loss, train
    from tasks.extractors.sbert import SbertSettings

    model = SbertSettings(model=tiny_encoder).open_model().model
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


@pytest.mark.slow
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
