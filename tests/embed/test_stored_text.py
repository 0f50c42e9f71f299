"""The stored word and sentence vectors against gensim and sentence-transformers, each at the time of its word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from support.media.recordings import FPS, write_recording
from support.studies import extract_session, make_study

from storyframes.store.feature_store import FeatureStore
from tasks.extractors.sbert import SbertSettings, model_folder

WORDS = ["the", "garden", "was", "full", "of", "bread", "do", "n't", "20", "%", "rain"]
LONG = "We walked for hours along the river and talked about nothing in particular, " * 4
UTTERANCES = [  # by their order in the file, which is not that of their times
    (6.0, 8.0, "Rain"),
    (0.5, 2.5, "the garden zebra was don't"),
    (3.0, 5.5, LONG + "until he told me that he had failed the exam."),
    (3.2, 5.7, LONG + "and then we baked fresh bread."),
    (8.5, 9.5, "full of 20% bread"),
]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "glove.txt"
    numbers = np.random.default_rng(1).normal(size=(len(WORDS), 300))
    lines = [f"{word} {' '.join(f'{number:.5f}' for number in row)}" for word, row in zip(WORDS, numbers, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> FeatureStore:
    """A session of ten seconds and two stories, extracted."""
    folder = tmp_path_factory.mktemp("study")
    write_recording(folder / "v.mkv", 10 * FPS)
    spoken = [{"start_s": start, "end_s": end, "text": text} for start, end, text in UTTERANCES]
    (folder / "t.json").write_text(json.dumps({"utterances": spoken}))
    study = make_study(folder, video="v.mkv", transcript="t.json")
    (study / "stories.csv").write_text(f"story_id,text\nb,the zebra garden zebra\na,{LONG.replace(',', '')}bread\n")
    root = folder / "features"
    glove = {"vectors": vectors}
    extract_session(study, root, "glove", "sbert", glove=glove)
    store, outcomes = extract_session(study, root, "glove", "sbert", session_id="stories", glove=glove)
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}
    return store


@pytest.fixture(scope="module")
def librarys_words(vectors: Path) -> KeyedVectors:
    """The same text file as gensim reads it."""
    return KeyedVectors.load_word2vec_format(str(vectors), binary=False, no_header=True)


def said() -> list[tuple[float, float, str]]:
    """Every word with its times, which share the utterance by the words' lengths; in the order of their starts."""
    words = []
    for start, end, text in UTTERANCES:
        listed = text.split()
        edges = start + (end - start) * np.cumsum([0, *map(len, listed)]) / sum(map(len, listed))
        words += list(zip(edges[:-1].tolist(), edges[1:].tolist(), listed, strict=True))
    return sorted(words, key=lambda word: word[0])


def test_every_words_vector_lies_at_the_words_own_time(stored: FeatureStore, librarys_words: KeyedVectors) -> None:
    values, known = stored.read("s", "glove"), stored.read("s", "glove", array="known")
    start, end = (stored.read("s", "glove", array=array) for array in ("start", "end"))
    words = said()
    np.testing.assert_allclose(start, [word[0] for word in words], atol=1e-9)
    np.testing.assert_allclose(end, [word[1] for word in words], atol=1e-9)
    parts = {"Rain": ["rain"], "don't": ["do", "n't"], "20%": ["20", "%"], "bread.": ["bread"]}
    seen = set()
    for row, (_, _, word) in enumerate(words):
        tokens = parts.get(word, [word])
        expected = None
        if all(token in librarys_words for token in tokens):
            expected = np.mean([librarys_words[token] for token in tokens], axis=0)
        assert known[row] == (expected is not None), word
        if expected is None:
            assert np.isnan(values[row]).all()
        else:
            np.testing.assert_allclose(values[row], expected, atol=1e-6)
            seen.add(word)
    assert {"the", "garden", "Rain", "don't", "20%", "bread."} <= seen  # nearly every vector is there, each another


def test_a_frames_word_is_the_one_spoken_then(stored: FeatureStore) -> None:
    start, end = (stored.read("s", "glove", array=array) for array in ("start", "end"))
    frame_word = stored.read("s", "glove", array="frame_word")
    for frame, row in enumerate(frame_word):
        time = frame / FPS
        speaking = [i for i in range(len(start)) if round(start[i], 6) <= time < round(end[i], 6)]
        assert row == (speaking[-1] if speaking else -1)


def librarys_sentences(texts: list[str]) -> np.ndarray:
    SbertSettings().open_model()  # makes torchvision importable
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(model_folder(SbertSettings())), local_files_only=True).encode(texts)


def test_every_utterances_vector_lies_at_its_own_time(stored: FeatureStore) -> None:
    """Two of them differ behind their first 300 characters only."""
    spoken = sorted(UTTERANCES)
    values = stored.read("s", "sbert")
    np.testing.assert_allclose(stored.read("s", "sbert", array="start"), [one[0] for one in spoken])
    np.testing.assert_allclose(stored.read("s", "sbert", array="end"), [one[1] for one in spoken])
    np.testing.assert_allclose(values, librarys_sentences([one[2] for one in spoken]), atol=1e-5)
    assert np.abs(values[1] - values[2]).max() > 0.01
    frame_utterance = stored.read("s", "sbert", array="frame_utterance")
    assert frame_utterance[[0, 15, 76, 80, 140, 143, 160, 220]].tolist() == [-1, 0, 1, 2, 2, -1, 3, 4]


def test_a_storys_vectors_are_the_librarys(stored: FeatureStore, librarys_words: KeyedVectors) -> None:
    """A word without a vector counts for nothing: not as a vector of zeros."""
    assert list(stored.story_ids("glove")) == ["a", "b"]
    values, share = stored.read("stories", "glove"), stored.read("stories", "glove", array="known")
    np.testing.assert_allclose(values[1], (librarys_words["the"] + librarys_words["garden"]) / 2, atol=1e-6)
    assert share[1] == 0.5
    texts = [f"{LONG.replace(',', '')}bread", "the zebra garden zebra"]
    np.testing.assert_allclose(stored.read("stories", "sbert"), librarys_sentences(texts), atol=1e-5)


def test_status_names_the_sessions_with_words_that_have_no_vector(stored: FeatureStore) -> None:
    from rich.console import Console

    from flows.cli.status_tables import status_tables
    from storyframes.store import record_status

    entries = list(record_status.scan(stored.storage))
    console = Console(width=200)
    with console.capture() as captured:
        console.print(*status_tables(entries), sep="\n")
    quality = {entry.session_id: entry.record.quality for entry in entries if entry.feature == "glove"}
    assert quality["s"]["words_known"] == pytest.approx(stored.read("s", "glove", array="known").mean())
    line = next(line for line in captured.get().splitlines() if "without a vector" in line)
    assert f"{1 - quality['s']['words_known']:.1%} of s" in line
    assert f"{1 - quality['stories']['words_known']:.1%} of stories" in line
