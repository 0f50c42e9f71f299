"""Topics of stories: planted clusters are found again, and nothing of a text is shown unless asked for."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.planted_topics import TOPICS, planted
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from support.messages import missing
from support.stores import local
from typer.testing import CliRunner

from demo.stub_endpoint import Reply, StubEndpoint
from storyframes.features import STORIES, STORY_FEATURES
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes_empathy.commands.app import app
from storyframes_empathy.text import topics
from storyframes_empathy.text.embeddings import EmbeddingError, EmbeddingService, embed
from storyframes_empathy.text.endpoint import agree
from storyframes_empathy.text.topics import Space, TopicError, find_topics, topic_terms


def plane(embeddings: np.ndarray, seed: int) -> np.ndarray:
    """The two directions in which embeddings vary most."""
    left, sizes, _ = np.linalg.svd(embeddings - embeddings.mean(0), full_matrices=False)
    return np.asarray(left[:, :2] * sizes[:2], np.float32)


@pytest.fixture(params=["plane", pytest.param("UMAP", marks=[pytest.mark.nightly, pytest.mark.needs("umap")])])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By day a plane is shown: to lay anything out, UMAP compiles for half a minute in each process."""
    if request.param == "plane":
        monkeypatch.setattr(topics, "_layout", plane)
    return request.param


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.needs("umap")
def test_a_seed_gives_the_same_points() -> None:
    embeddings, _ = planted()
    found = find_topics(embeddings, topics=TOPICS, seed=3, draws=0)
    again = find_topics(embeddings.copy(), topics=TOPICS, seed=3, draws=0)
    assert again.points.tobytes() == found.points.tobytes()
    other = find_topics(embeddings, topics=TOPICS, seed=4, draws=0)
    assert other.points.tobytes() != found.points.tobytes()


@pytest.mark.slow
def test_planted_clusters_are_found(layout: str) -> None:
    embeddings, labels = planted()
    number = TOPICS if layout == "UMAP" else 3  # as many as a plane keeps apart
    embeddings, labels = embeddings[labels < number], labels[labels < number]
    found = find_topics(embeddings, seed=3, draws=3)
    assert int(found.labels.max()) + 1 == number
    assert adjusted_rand_score(labels, found.labels) >= 0.95
    assert max(found.silhouettes, key=found.silhouettes.__getitem__) == number
    assert list(found.silhouettes) == list(range(2, 21))
    assert found.caveats == ()
    assert len(found.of_chance) == 3
    assert max(found.of_chance) < 0.6 < 0.9 < found.silhouettes[number]


def test_planted_clusters_are_found_among_the_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_layout", plane)
    embeddings, labels = planted()
    whole = find_topics(embeddings, topics=TOPICS, seed=3, space=Space.EMBEDDING)
    assert adjusted_rand_score(labels, whole.labels) >= 0.95
    assert (len(whole.of_chance), whole.caveats) == (19, ())


def test_the_largest_topic_is_the_first_and_only_directions_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_layout", plane)
    embeddings, labels = planted()
    few = np.concatenate([np.flatnonzero(labels == label)[:size] for label, size in enumerate((5, 9, 7))])
    lengths = np.geomspace(0.001, 1000, len(few))[:, None]
    found = find_topics(embeddings[few] * lengths, topics=3, space=Space.EMBEDDING, draws=0)
    assert found.labels.tolist() == [2] * 5 + [0] * 9 + [1] * 7
    # K-means numbers them so by chance as well.
    monkeypatch.setattr(topics, "_grouped", lambda *_: ({3: np.array([2, 0, 0, 1, 1, 2, 2])}, {3: 1.0}))
    assert find_topics(embeddings[:7], topics=3, draws=0).labels.tolist() == [0, 1, 1, 2, 2, 0, 0]
    of_equal_size = topics._by_size(np.array([2, 0, 0, 1, 1, 2, 3]))
    assert of_equal_size.tolist() == [0, 1, 1, 2, 2, 0, 3]  # the one that comes first is the first


@pytest.mark.slow
@pytest.mark.parametrize(("dimensions", "space"), [(384, Space.LAYOUT), (8, Space.EMBEDDING)])
def test_topics_of_noise_are_said_to_be_chance(layout: str, dimensions: int, space: Space) -> None:
    """Texts that differ in 384 ways, or in 8 and a little: both fall into parts, and neither has topics."""
    generator = np.random.default_rng(4)
    noise = generator.normal(size=(40, dimensions)) @ generator.normal(size=(dimensions, 384))
    embeddings = noise + generator.normal(size=(40, 384)) + generator.normal(size=384)
    found = find_topics(embeddings, space=space, draws=300)  # above all of 19 is one of 20, wherever UMAP is another
    assert int(found.labels.max()) >= 1
    assert found.of_chance[-1] >= max(found.silhouettes.values())
    (caveat,) = found.caveats
    assert not missing(caveat, f"their silhouette is {max(found.silhouettes.values()):.2f}", "the topics may be chance")


@pytest.mark.parametrize(
    ("count", "topics", "why"),
    [(3, None, "4 are the fewest"), (5, 5, "from 2 to 4"), (6, 1, "from 2 to 5")],
)
def test_too_few_or_too_many(count: int, topics: int | None, why: str) -> None:
    with pytest.raises(TopicError, match=why):
        find_topics(np.eye(8)[:count], topics=topics)


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_an_embedding_that_is_none(value: float) -> None:
    embeddings = np.eye(6)
    embeddings[4] = value
    with pytest.raises(TopicError, match="story 4"):
        find_topics(embeddings)


def test_terms_are_what_a_topic_says_and_others_do_not() -> None:
    texts = ["the cat and the cat house", "dog dog house", "cat purrs", "dog barks at the house"]
    first, second = topic_terms(texts, np.array([0, 1, 0, 1]), count=2)
    assert (first, second[0]) == (["cat", "purrs"], "dog")
    assert topic_terms(["the and", "of the"], np.array([0, 1])) == [[], []]


@given(st.permutations(range(4)))
def test_terms_do_not_depend_on_the_order_of_texts(order: list[int]) -> None:
    texts = ["one cat", "two dogs", "three cats", "dogs bark"]
    labels = np.array([0, 1, 0, 1])
    assert topic_terms([texts[place] for place in order], labels[order]) == topic_terms(texts, labels)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A study of nine stories in three groups, and a store with their embeddings."""
    folder = tmp_path_factory.mktemp("topics")
    study, root = folder / "study", folder / "features"
    study.mkdir()
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.avi\n")
    words = ["zebrafinch<b>", "lighthouse", "marathon"]
    texts = [f"a story of a {words[place % 3]} and number {place}" for place in range(9)]
    pd.DataFrame({"story_id": [f"st{place}" for place in range(9)], "text": texts}).to_csv(study / "stories.csv")
    create_store(root)
    generator = np.random.default_rng(1)
    centres = generator.normal(size=(3, 384))
    with FeatureWriter(local(root), STORIES, STORY_FEATURES["sbert"]) as out:
        rows = centres[np.arange(9) % 3] + 0.1 * generator.normal(size=(9, 384))
        out.write("values", rows.astype(np.float32))
        out.attributes["story_ids"] = [f"st{place}" for place in range(9)]
        out.caveat(Caveat.UNKNOWN_SCRIPT)
        out.publish("f" * 64, {"inputs": {}})
    return study, root


@pytest.mark.needs("umap")
@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("with_text", [False, True])
def test_the_page_shows_words_only_where_asked(stories: tuple[Path, Path], tmp_path: Path, with_text: bool) -> None:
    out = tmp_path / "page"
    arguments = [*map(str, stories), "--out", str(out), "--topics", "3", "--json", *(["--with-text"] * with_text)]
    done = CliRunner().invoke(app, ["topics", *arguments])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["stories"], told["topics"], len(told["caveats"])) == (9, 3, 2)
    assert told["caveats"][0] == f"sbert: {Caveat.UNKNOWN_SCRIPT}"
    table = pd.read_parquet(out / "topics.parquet")
    assert adjusted_rand_score(np.arange(9) % 3, table["topic"]) == 1
    page = (out / "index.html").read_text()
    assert ("zebrafinch" in page, "zebrafinch" in done.output) == (with_text, with_text)
    assert "zebrafinch<b>" not in page
    assert Caveat.UNKNOWN_SCRIPT in page
    assert "st4" in page


@pytest.mark.needs("umap")
def test_no_topics(stories: tuple[Path, Path], tmp_path: Path) -> None:
    study, root = stories
    create_store(tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("")
    for features, out, why in (
        (tmp_path / "empty", tmp_path / "out", "no embeddings of stories"),
        (root, tmp_path / "mine", "is not a report"),
    ):
        done = CliRunner().invoke(app, ["topics", str(study), str(features), "--out", str(out)])
        assert (done.exit_code, why in done.output) == (2, True), done.output


@pytest.mark.needs("umap")
@pytest.mark.usefixtures("layout")
def test_a_service_embeds_only_where_the_user_agreed(stories: tuple[Path, Path], tmp_path: Path) -> None:
    study, root = stories
    arguments = ["topics", str(study), str(root), "--out", str(tmp_path / "page"), "--topics", "2", "--model", "m"]
    refused = CliRunner().invoke(app, [*arguments, "--base-url", "https://api.example.org/v1"])
    assert (refused.exit_code, "--send-transcripts-to api.example.org" in refused.output) == (2, True)
    with StubEndpoint() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        done = CliRunner().invoke(app, [*arguments, "--base-url", server.url, "--json"])
        made = embed(["one", "two", "one"], EmbeddingService(agree(server.url), "m"))
        server.shutdown()
    assert done.exit_code == 0, done.output
    assert [request["input"][0] for request in server.requests] == ["a story of a zebrafinch<b> and number 0", "one"]
    assert json.loads(done.stdout)["stories"] == 9
    assert "zebrafinch" not in (tmp_path / "page/index.html").read_text() + done.output
    assert made.shape == (3, 32)
    assert (made[0] == made[2]).all()
    expected = [byte / 255 - 0.5 for byte in hashlib.sha256(b"two").digest()]
    assert made[1] == pytest.approx(expected)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"data": [{"index": 0, "embedding": [1.0]}]}',
        b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}',
        b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]}',
    ],
)
def test_what_is_no_embedding_for_each_text(body: bytes) -> None:
    with StubEndpoint(lambda request: Reply(body=body)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with pytest.raises(EmbeddingError, match=r"127\.0\.0\.1"):
            embed(["one", "two"], EmbeddingService(agree(server.url), "m", retries=0))
        server.shutdown()
