"""Writes glove.demo.300d.txt: a seeded random vector for each word of the demo study, in GloVe's published text form.

The numbers mean nothing; they let the demo run without a download of 2.2 GB. Run: python demo/make_vectors.py
"""

import csv
import json
from pathlib import Path

import numpy as np

DEMO = Path(__file__).parent


def words() -> list[str]:
    texts = [row["text"] for row in csv.DictReader((DEMO / "study" / "stories.csv").open(encoding="utf-8"))]
    for path in sorted((DEMO / "study" / "transcripts").glob("*.json")):
        texts += [utterance["text"] for utterance in json.loads(path.read_text())["utterances"]]
    return sorted({word.strip(".,;:!?\"'").lower() for text in texts for word in text.split()})


def main() -> None:
    generator = np.random.default_rng(0)
    with (DEMO / "glove.demo.300d.txt").open("w", encoding="utf-8") as file:
        for word in words():
            vector = " ".join(f"{value:.2f}" for value in generator.normal(0, 0.4, 300))
            file.write(f"{word} {vector}\n")


if __name__ == "__main__":
    main()
