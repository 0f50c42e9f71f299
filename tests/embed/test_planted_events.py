"""An event that a tiny model is trained here to tell gives its column at its time: a sound, a picture, a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.media.recordings import write_wave
from support.models.tiny_audio_models import RATE
from support.models.tiny_classifiers import image_classifier, sound_classifier, text_classifier
from support.models.tiny_text_models import WORDS
from support.studies import extract_session, make_study

torch.set_num_threads(1)  # as in a worker

LABELS = ("nothing", "event")
RANDOM = np.random.default_rng(4)


def train(folder: Path, loader: str, inputs: Any, steps: int, rate: float = 3e-3) -> None:
    """Of the inputs the second half has the event."""
    import transformers

    model = getattr(transformers, loader).from_pretrained(folder).eval()
    is_event = (torch.arange(len(next(iter(inputs.values())))) >= len(next(iter(inputs.values()))) // 2).long()
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(**inputs).logits, is_event)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.3
    model.save_pretrained(folder)


def scores_of(study: Path, section: dict[str, Any], *arrays: str) -> list[np.ndarray]:
    """The scores of the event in a session, and other arrays."""
    store, outcomes = extract_session(study, study / "features", "said", embed=[{"name": "said", **section}])
    assert str(outcomes["said"].status) == "done", outcomes
    return [store.read("s", "said.event").ravel(), *(store.read("s", "said", array=name) for name in arrays)]


def sounds(count: int, seconds: float, *, tone: bool) -> np.ndarray:
    time = np.arange(round(seconds * RATE)) / RATE
    pitch = RANDOM.uniform(500, 900, (count, 1))
    return RANDOM.normal(0, 0.05, (count, len(time))) + 0.5 * tone * np.sin(2 * np.pi * pitch * time)


@pytest.mark.slow
def test_a_tone_in_noise(tmp_path: Path) -> None:
    import transformers

    folder = sound_classifier(tmp_path / "m", "ast", LABELS)
    windows = [*sounds(8, 0.4, tone=False), *sounds(8, 0.4, tone=True)]
    processor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    train(folder, "AutoModelForAudioClassification", processor(windows, sampling_rate=RATE, return_tensors="pt"), 40)
    (signal,), (tone,) = sounds(1, 4.0, tone=False), sounds(1, 0.6, tone=True)
    begin = round(2.2 * RATE)
    signal[begin : begin + len(tone)] = tone
    write_wave(tmp_path / "s.wav", (20_000 * signal).astype(np.int16), RATE)
    section = {
        "kind": "audio",
        "source": f"path:{folder}",
        "output": "scores",
        "activation": "softmax",
        "stride_s": 0.2,
        "window_s": 0.4,
    }
    scores, time = scores_of(make_study(tmp_path, audio="s.wav"), section, "time")
    assert abs(time[scores.argmax()] - 2.5) <= 0.4
    assert scores[np.abs(time - 2.5) < 0.15].min() > 0.6
    assert scores[np.abs(time - 2.5) > 0.6].max() < 0.4


def pictures(count: int, *, square: bool) -> np.ndarray:
    rgb = RANDOM.integers(0, 120, (count, 32, 32, 3), dtype=np.uint8)
    if square:
        rgb[:, 8:24, 8:24] = 255
    return rgb


@pytest.mark.slow
def test_a_square_in_a_picture(tmp_path: Path) -> None:
    import transformers

    folder = image_classifier(tmp_path / "m", LABELS)
    shown = [*pictures(8, square=False), *pictures(8, square=True)]
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    train(folder, "AutoModelForImageClassification", processor(images=shown, return_tensors="pt"), 40)
    frames = pictures(40, square=False)
    frames[23:26] = pictures(3, square=True)
    with av.open(str(tmp_path / "s.mkv"), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = 32, 32, "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode(None))
    section = {"kind": "image", "source": f"path:{folder}", "output": "scores", "engine": "torch"}
    (scores,) = scores_of(make_study(tmp_path, video="s.mkv"), section)
    assert np.flatnonzero(scores > 0.5).tolist() == [23, 24, 25]


@pytest.mark.slow
def test_a_word_in_an_utterance(tmp_path: Path) -> None:
    import transformers

    folder = text_classifier(tmp_path / "m", LABELS)
    state = load_file(folder / "model.safetensors")  # as drawn it would learn sentences by heart
    state = {name: each if "LayerNorm" in name else each * 0.2 for name, each in state.items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    others = [word for word in WORDS if word != "bread"]
    drawn = [RANDOM.choice(others, 4).tolist() for _ in range(64)]
    without, having = drawn[:32], [[*words[: n % 5], "bread", *words[n % 5 :]] for n, words in enumerate(drawn[32:])]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer([" ".join(words) for words in (*without, *having)], padding=True, return_tensors="pt")
    train(folder, "AutoModelForSequenceClassification", dict(given), 80, 1e-2)
    texts = ["he was full of rain", "we walked until bread", "the garden failed", "me and the river"]
    spoken = [{"start_s": n, "end_s": n + 0.8, "text": text} for n, text in enumerate(texts)]
    (tmp_path / "t.json").write_text(json.dumps({"utterances": spoken}))
    section = {"kind": "text", "source": f"path:{folder}", "output": "scores"}
    scores, start = scores_of(make_study(tmp_path, transcript="t.json"), section, "start")
    assert start[scores.argmax()] == 1.0
    assert np.sort(scores)[-2] < 0.5 < scores.max()
