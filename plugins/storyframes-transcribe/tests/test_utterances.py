"""Where utterances end: at a pause, and at the end of a sentence, which a title is not."""

from __future__ import annotations

import pytest
from storyframes_transcribe.transcript_file import utterances
from storyframes_transcribe.words import HeardWord

pytestmark = pytest.mark.needs("faster_whisper")


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        ("And Mr. Dashwood had leisure. He was Dr. Young", ["And Mr. Dashwood had leisure.", "He was Dr. Young"]),
        ("Hold on! Is M. Dupont there? No.", ["Hold on!", "Is M. Dupont there?", "No."]),
    ],
)
def test_a_title_does_not_end_an_utterance(said: str, texts: list[str]) -> None:
    words = [HeardWord(word, 0.3 * place, 0.3 * place + 0.25, 0.9) for place, word in enumerate(said.split())]
    assert [utterance.text for utterance in utterances(words, 1.0, None, None)] == texts
