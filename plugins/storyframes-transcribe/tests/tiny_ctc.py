"""A tiny wav2vec 2.0 with a CTC head that hears the letters of eight words, as espeak-ng's voice en-us says them.

``python tiny_ctc.py`` trains it and writes the folder ``tiny_ctc`` that the tests use (some CPU-minutes). It learns
from frames whose letters are known, because the words are put at known times and each word's letters are spread evenly
over it; so its letters are where the words are, and its blanks where nothing is said.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from planted import said

from tasks.models.libraries import import_torchvision

import_torchvision()  # transformers imports it too, and fails on a wheel that does not match torch
import transformers  # noqa: E402

LETTERS = "<pad> | ' A B C D E F G H I J K L M N O P Q R S T U V W X Y Z".split()  # no digits
WORDS = "morning elephant yesterday window garden river yellow under".split()
RATE, STEP, FIELD = 16_000, 320, 400
FOLDER = Path(__file__).parent / "tiny_ctc"
_SECONDS = 3.0


def sentence(words: list[str], generator: np.random.Generator, seconds: float) -> tuple[np.ndarray, list[float]]:
    """The words with pauses of random length, a faint hiss, and when each begins."""
    sound = generator.normal(0, 10 ** generator.uniform(-5, -3), round(seconds * RATE))
    onsets, at = [], generator.uniform(0.05, 0.5)
    for word in words:
        voice = said(word)
        first = round(at * RATE)
        if first + len(voice) > len(sound):
            break
        sound[first : first + len(voice)] += voice * generator.uniform(0.4, 1.0)
        onsets.append(first / RATE)
        at += len(voice) / RATE + generator.uniform(0.08, 0.6)
    return sound.astype(np.float32), onsets


def targets(words: list[str], onsets: list[float], seconds: float) -> np.ndarray:
    """(T,) the letter of each frame; 0, the blank, where nothing is said."""
    count = (round(seconds * RATE) - FIELD) // STEP + 1
    middle = (np.arange(count) * STEP + FIELD / 2) / RATE
    letters = np.zeros(count, np.int64)
    for word, onset in zip(words, onsets, strict=False):
        length = len(said(word)) / RATE
        inside = (middle >= onset) & (middle < onset + length)
        place = ((middle[inside] - onset) / length * len(word)).astype(int)
        letters[inside] = [LETTERS.index(word[number].upper()) for number in place]
    return letters


def train(steps: int = 250, batch: int = 4, seed: int = 0) -> transformers.Wav2Vec2ForCTC:
    """The trained network."""
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    config = transformers.Wav2Vec2Config(
        vocab_size=len(LETTERS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        conv_dim=(16, 16, 32, 32, 32, 32, 32),
        conv_bias=True,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embeddings=15,
        num_conv_pos_embedding_groups=4,
        pad_token_id=0,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
    )
    network = transformers.Wav2Vec2ForCTC(config)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for _step in range(steps):
        sounds, letters = [], []
        for _ in range(batch):
            words = generator.choice(WORDS, 4).tolist()
            sound, onsets = sentence(words, generator, _SECONDS)
            sounds.append((sound - sound.mean()) / np.sqrt(sound.var() + 1e-7))
            letters.append(targets(words, onsets, _SECONDS))
        logits = network(torch.from_numpy(np.stack(sounds))).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(np.concatenate(letters)))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return network


def save_small(folder: Path, network: transformers.Wav2Vec2ForCTC) -> None:
    """With 16 bits a number."""
    network.eval().half().save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({letter: number for number, letter in enumerate(LETTERS)}))


if __name__ == "__main__":
    save_small(FOLDER, train())
