"""What it costs to train and to score with a model, one thread: steps, preparing batches, and encoding windows.

Each number stands beside its baseline, interleaved with it in the same run: a loop with PyTorch's own LSTM as it comes,
the matrix products that no step can do without, reading and z-scoring every clip, and encoding every clip. Peak memory
is that of processes of their own, which train on a bank, or on what they read. With a GPU the steps are measured there
as well, with the bank on it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from benchmarks.measure import interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record
from benchmarks.reading.clip_index import build_index
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.samplers import ClipSampler, SequentialSampler, UniformSampler
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import STORIES, STORY_FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage
from storyframes_empathy.training.feed import Feed, Loaded, open_bank
from storyframes_empathy.training.inputs import Part, Preparation, open_parts, rows_of
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.models.parts import Sequences, use_onednn
from storyframes_empathy.training.moments import Moments, measure
from storyframes_empathy.training.predict import WindowSampler
from storyframes_empathy.training.settings import MODALITIES, ModelName, TrainSettings
from tasks.clip_index.index import write_clip_index

WIDTHS = {"v": 2757, "a": 65, "t": 300}
BATCH, STEPS = 64, 120
SESSIONS, FRAMES = 6, 1200
COMPONENTS = 256  # of v, with pca
ONEDNN = "float32 with oneDNN, as PyTorch has it"
INPUTS = {name: [{"input": name}] for name in MODALITIES}


def batch(device: str) -> Sequences:
    generator = torch.Generator().manual_seed(0)
    values = {name: torch.randn(BATCH, STEPS, width, generator=generator) for name, width in WIDTHS.items()}
    masks = {name: torch.ones(BATCH, STEPS, dtype=torch.bool, device=device) for name in WIDTHS}
    return Sequences({name: each.to(device) for name, each in values.items()}, masks)


def stepping(model: nn.Module, given: Sequences, device: str, *, half: bool = False):  # type: ignore[no-untyped-def]
    """A step of training, to be called."""
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            encoded = model(given)
        encoded.float().square().mean().backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def projected(given: Sequences) -> Sequences:
    """The same batch with fewer columns of v."""
    return Sequences({**given.values, "v": given.values["v"][..., :COMPONENTS].contiguous()}, given.masks)


def made(name: ModelName, *, onednn: bool = True, widths: Mapping[str, int] = WIDTHS, **sizes: object) -> nn.Module:
    model: nn.Module = build(name, widths, 384, TrainSettings.model_validate({name.value: sizes} if sizes else {}))
    use_onednn(model, onednn)
    return model


def print_steps() -> None:
    given = batch("cpu")
    flat = torch.cat(list(given.values.values()), dim=2).flatten(0, 1)
    weights, gradient = torch.randn(flat.shape[1], 512), torch.randn(len(flat), 512)
    candidates = {
        "EF-LSTM, a step in float32 without oneDNN": stepping(made(ModelName.EF_LSTM, onednn=False), given, "cpu"),
        ONEDNN: stepping(made(ModelName.EF_LSTM), given, "cpu"),
        "in bfloat16, without oneDNN": stepping(made(ModelName.EF_LSTM, onednn=False), given, "cpu", half=True),
        "in bfloat16, with oneDNN": stepping(made(ModelName.EF_LSTM), given, "cpu", half=True),
        f"in float32 without oneDNN, v on {COMPONENTS} components": stepping(
            made(ModelName.EF_LSTM, onednn=False, widths=WIDTHS | {"v": COMPONENTS}), projected(given), "cpu"
        ),
        "the first layer's two products alone, float32": lambda: (flat @ weights, flat.T @ gradient),
        "the same in bfloat16": lambda: (flat.bfloat16() @ weights.bfloat16(), flat.T.bfloat16() @ gradient.bfloat16()),
    }
    took = {name: one.cpu_s for name, one in interleave(candidates, runs=3).items()}
    rows = [[name, f"{1000 * cpu_s / BATCH:.2f}", f"{cpu_s / took[ONEDNN]:.2f}"] for name, cpu_s in took.items()]
    record("training", ("", "CPU-ms a clip", f"of {ONEDNN} (wanted: 0.50 where that is slower)"), rows, ["torch"])


def write_store(root: Path) -> FeatureStore:
    """Sessions whose every window has three ratings."""
    create_store(root)
    storage, generator = LocalStorage(root), np.random.default_rng(0)
    names = [f"s{number}" for number in range(SESSIONS)]
    sessions = pd.DataFrame({"session_id": names, "participant_id": names})
    phases = sessions[["session_id"]].assign(phase="story_share", start_s=0.0, end_s=FRAMES / WindowSpec().fps)
    rated = [(name, f"story{position}", position, 1 + position) for name in names for position in (1, 2, 3)]
    ratings = pd.DataFrame(rated, columns=["session_id", "story_id", "position", "empathy"])
    for session in names:
        for name, width in WIDTHS.items():
            columns = tuple(f"{name}{number}" for number in range(width))
            array = ArraySpec(Axis.FRAME, "float32", "random", (width,), ("column",), columns=columns)
            with FeatureWriter(storage, session, FeatureSpec(name, "random", {"values": array})) as out:
                out.write("values", generator.normal(size=(FRAMES, width)).astype(np.float32))
                out.publish("f", {})
    stories = sorted(ratings["story_id"].unique())
    with FeatureWriter(storage, STORIES, STORY_FEATURES["sbert"]) as out:
        out.write("values", generator.normal(size=(len(stories), 384)).astype(np.float32))
        out.attributes["story_ids"] = stories
        out.publish("f", {})
    catalogue.compact(storage)
    index = build_index(sessions, phases, ratings, WindowSpec(split_shares=(1, 0, 0)))
    index.attrs["schemes"] = {"empathy": "ordinal"}
    write_clip_index(index, storage)
    return FeatureStore(root)


class Some(UniformSampler):
    """The first clips of a random order: as many as a few batches."""

    def __iter__(self) -> Iterator[int]:
        yield from list(super().__iter__())[: 4 * BATCH]


def opened(folder: Path) -> tuple[ClipDataset, dict[str, list[Part]]]:
    """The clips of the store in ``folder``, and what models are given of them."""
    settings = TrainSettings.model_validate(INPUTS)
    dataset = ClipDataset(FeatureStore(folder / "features"), settings.clip_inputs(MODALITIES))
    return dataset, open_parts(dataset, settings, MODALITIES)


def print_preparing(folder: Path) -> None:
    write_store(folder / "features")
    dataset, parts = opened(folder)
    taking = {part.name: (lambda one, part=part: rows_of(one, part)) for own in parts.values() for part in own}
    preparation = Preparation(parts, measure(dataset, taking))  # type: ignore[arg-type]
    read = Loaded(preparation)
    banks = {kind: open_bank(folder / "banks", 0, [dataset], preparation, kind) for kind in ("float32", "bfloat16")}  # type: ignore[arg-type]

    def through(feed: Feed, sampler: ClipSampler) -> None:
        for _ in feed.batches(dataset, sampler, BATCH):
            pass

    candidates = {"read and z-scored": lambda: through(read, Some(dataset))}
    candidates |= {f"a bank of {kind}": lambda bank=bank: through(bank, Some(dataset)) for kind, bank in banks.items()}  # type: ignore[misc]
    took = {name: one.cpu_s for name, one in interleave(candidates, runs=3).items()}
    for name, seconds in took.items():
        share = f"{seconds / took['read and z-scored']:.2f} of reading (wanted: at most .12)" if "bank" in name else ""
        print(f"{name:40} {1000 * seconds / (4 * BATCH):8.2f} ms a clip  {share}")

    read_s = took["read and z-scored"]
    rows = [(name, f"{1000 * cpu_s / (4 * BATCH):.2f}", f"{cpu_s / read_s:.2f}") for name, cpu_s in took.items()]
    columns = ("a batch", "CPU-ms a clip", "of reading (wanted: 0.12)")
    record("training-bank", columns, rows, ["torch"])

    model = made(ModelName.EF_LSTM, onednn=False).eval()

    def encode(sampler: ClipSampler) -> None:
        with torch.inference_mode():
            for _, given in read.batches(dataset, sampler, BATCH):
                model(given)

    scored = {
        "each window encoded once": lambda: encode(WindowSampler(dataset)),
        "each clip encoded": lambda: encode(SequentialSampler(dataset)),
    }
    once, each = (one.cpu_s for one in interleave(scored, runs=1).values())
    print(f"each window once / each clip: {once / each:.2f} (wanted: at most .40, of three ratings)")


def as_they_are(folder: Path) -> tuple[ClipDataset, Preparation]:
    """The clips, and a preparation that measures nothing first: values are z-scores already."""
    dataset, parts = opened(folder)
    alike = {part.name: np.ones(part.width) for own in parts.values() for part in own}
    return dataset, Preparation(parts, {name: Moments(one, 0 * one, one) for name, one in alike.items()})


def train_some(folder: Path, name: str, kind: str) -> None:
    """Train a model on a few batches, and score with it: out of the bank, which is read whole, or of what is read."""
    dataset, preparation = as_they_are(folder)
    if name == "nothing":
        return
    feed: Feed = Loaded(preparation)
    if kind == "bank":
        feed = open_bank(folder / "banks", 0, [dataset], preparation, "float32")
        float(feed.values.sum())
    model = made(ModelName(name), onednn=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _, given in feed.batches(dataset, Some(dataset), BATCH):
        optimizer.zero_grad()
        model(given).square().mean().backward()
        optimizer.step()
    with torch.inference_mode():
        for _, given in feed.batches(dataset, Some(dataset), BATCH):
            model.eval()(given)


def print_memory(folder: Path) -> None:
    """Beyond the bank, whose pages count as the process's own while they are mapped."""
    bank = max(path.stat().st_size for path in (folder / "banks").iterdir() if path.suffix == ".values") / 1e9
    before = peak_memory_gb("benchmarks.empathy.train", f"{folder}::nothing::")
    print(f"{'peak memory of a process that trains nothing':46} {before:5.2f} GB")
    for name in ModelName:
        held, read = (
            peak_memory_gb("benchmarks.empathy.train", f"{folder}::{name}::{kind}") for kind in ("bank", "read")
        )
        print(f"{name:46} {held - bank:5.2f} GB above the bank, {read:5.2f} without one (wanted: at most 1.0)")


def print_gpu(folder: Path) -> None:
    if not torch.cuda.is_available():
        print("there is no GPU: clips a second on one are not measured")
        return
    dataset, preparation = as_they_are(folder)
    bank = open_bank(folder / "banks", 0, [dataset], preparation, "float32", "cuda")

    def training(model: nn.Module):  # type: ignore[no-untyped-def]
        optimizer = torch.optim.AdamW(model.to("cuda").train().parameters(), lr=1e-4)

        def run() -> None:
            for _, given in bank.batches(dataset, Some(dataset), BATCH):
                optimizer.zero_grad()
                model(given).square().mean().backward()
                optimizer.step()
            torch.cuda.synchronize()

        return run

    # use_onednn is for processors: cuDNN computes the recurrent layers here.
    candidates = {name.value: training(made(name, onednn=False)) for name in ModelName}
    measured = interleave(candidates, runs=5)
    rows = [(name, f"{4 * BATCH / one.wall_s:,.0f}") for name, one in measured.items()]
    record("training-on-a-gpu", ("model", f"clips a second, on one {torch.cuda.get_device_name()}"), rows, ("torch",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--gpu", action="store_true", help="only what is measured on a GPU")
    torch.set_num_threads(1)
    arguments = parser.parse_args()
    if asked := arguments.memory_of:
        folder, name, kind = asked.split("::")
        train_some(Path(folder), name, kind)
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    if arguments.gpu:
        with tempfile.TemporaryDirectory() as temporary:
            write_store(Path(temporary) / "features")
            print_gpu(Path(temporary))
        return
    print_steps()
    with tempfile.TemporaryDirectory() as temporary:
        print_preparing(Path(temporary))
        print_memory(Path(temporary))
        print_gpu(Path(temporary))


if __name__ == "__main__":
    main()
