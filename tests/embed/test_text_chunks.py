"""Texts longer than a model reads: in chunks of whole words, none of them cut, and weighted by what they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.studies import extract_session, make_study

from tasks.extractors.sbert import SbertSettings, model_folder
from tasks.extractors.text.encoder import Chunk, chunks, embed_in_chunks

WORDS = "the garden don't 20% unbelievableness 我们去公园 ร้อน a,b; naïve".split()
READS = 254  # word pieces of MiniLM, without its two marks


@pytest.fixture(scope="module")
def tokenizer():
    SbertSettings().open_model()  # makes torchvision importable
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(model_folder(SbertSettings())), local_files_only=True)


def pieces(tokenizer, text: str) -> int:
    return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=60),
    most=st.integers(20, 40),
)
def test_chunks_are_the_text_in_order_and_each_is_read_whole(tokenizer, words: list[str], most: int) -> None:
    text = " ".join(words)
    found = chunks(text, tokenizer, most)
    assert "".join(chunk.text for chunk in found).replace(" ", "") == text.replace(" ", "")
    assert all(chunk.pieces == pieces(tokenizer, chunk.text) <= most for chunk in found)
    assert len(found) == 1 or all(chunk.pieces > most // 2 for chunk in found[:-1])


def test_a_text_that_is_read_whole_is_left_as_it_is(tokenizer) -> None:
    assert chunks("", tokenizer, READS) == [Chunk("", 0)]
    text = "  two  spaces, and\na line  "
    assert [chunk.text for chunk in chunks(text, tokenizer, READS)] == [text]
    exactly = " ".join(["garden"] * READS)
    assert [chunk.pieces for chunk in chunks(exactly, tokenizer, READS)] == [READS]
    assert [chunk.pieces for chunk in chunks(f"{exactly} garden", tokenizer, READS)] == [READS, 1]


def test_no_word_is_cut_and_one_that_is_too_long_is(tokenizer) -> None:
    word = "pseudohypoparathyroidism"
    size = pieces(tokenizer, word)
    assert size > 2
    for most in range(size, 3 * size):
        assert {chunk.text for chunk in chunks(" ".join([word] * 7), tokenizer, most)} <= {
            " ".join([word] * count) for count in range(1, 8)
        }
    cut = chunks(f"a {word}", tokenizer, size - 1)
    assert "".join(chunk.text for chunk in cut).replace(" ", "") == f"a{word}"


def test_chunks_count_by_their_pieces() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8]}
    texts = [[Chunk("c", 5)], [Chunk("a", 3), Chunk("b", 1)]]
    found = embed_in_chunks(texts, lambda asked: np.array([vectors[one] for one in asked], np.float32))
    np.testing.assert_array_equal(found[0], np.array(vectors["c"], np.float32))
    np.testing.assert_allclose(found[1], np.array([3, 1]) / np.sqrt(10), rtol=1e-6)


@pytest.mark.slow
def test_a_long_storys_vector_holds_its_end(tokenizer, tmp_path: Path) -> None:
    """Two stories that differ behind what the model reads at once; the vectors are the library's, put together here."""
    begin = ["my", "grandmother", "told", "me", "about", "the", "garden"] * 45
    ends = (["he", "failed", "the", "exam"] * 40, ["we", "baked", "fresh", "bread"] * 40)
    texts = [" ".join([*begin, *end]) for end in ends] + ["a short one"]
    study = make_study(tmp_path, video="v.avi")
    rows = [f"s{number},{text}" for number, text in enumerate(texts)]
    (study / "stories.csv").write_text("\n".join(["story_id,text", *rows]) + "\n")
    store, outcomes = extract_session(study, tmp_path / "features", "sbert", session_id="stories")
    assert outcomes["sbert"].caveats == ()
    assert store.attributes("stories", "sbert")["chunks"] == [2, 2, 1]
    stored = store.read("stories", "sbert")
    assert np.abs(stored[0] - stored[1]).max() > 0.02
    for text, vector in zip(texts, stored, strict=True):
        parts: list[list[str]] = [[]]
        for word in text.split():
            if pieces(tokenizer, " ".join([*parts[-1], word])) > READS:
                parts.append([])
            parts[-1].append(word)
        weights = [pieces(tokenizer, " ".join(part)) for part in parts]
        encoded = SbertSettings().open_model().embed_together([" ".join(part) for part in parts])
        mean = np.average(encoded, axis=0, weights=weights)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=2e-6)
