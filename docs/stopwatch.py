"""From a folder with recordings to a DataFrame, a report and an epoch of training, and how long each step takes.

    python docs/stopwatch.py FOLDER     # with two or more videos in it; FOLDER/made is written anew each time

Needs ``pip install 'storyframes[pipeline,report]'``. Features of the sound alone are made: they need no model file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """
features = ["frames", "opensmile"]

[clips]
window_s = 4.0
stride_s = 1.0
"""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say how long what is done inside took."""
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)


def storyframes(*arguments: str) -> None:
    """Run a command; what it shows is shown where it fails."""
    done = subprocess.run([sys.executable, "-m", "flows.cli", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"storyframes {' '.join(arguments)}\n{done.stdout}{done.stderr}")


def prepare(folder: Path) -> tuple[Path, list[Path]]:
    """An empty FOLDER/made with a configuration and a folder of the recordings; what an earlier run left is removed."""
    videos = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".avi", ".mp4", ".mkv", ".mov"))
    if not videos:
        sys.exit(f"{folder} has no videos (.avi, .mp4, .mkv, .mov): put two or more recordings into it")
    made = folder / "made"
    if made.exists() and not (made / "storyframes.toml").exists():
        sys.exit(f"{made} is not from an earlier run: move it away, this would be written there")
    shutil.rmtree(made, ignore_errors=True)
    (made / "study").mkdir(parents=True)
    (made / "storyframes.toml").write_text(CONFIG)
    for video in videos:
        try:
            os.link(video, made / "study" / video.name)
        except OSError:  # a file system without links
            shutil.copy(video, made / "study")
    return made, videos


def main(folder: Path) -> None:
    """All of it, one step after the other."""
    began = time.monotonic()
    made, videos = prepare(folder)
    study, config, features = made / "study", made / "storyframes.toml", made / "features"

    with step("one recording is a DataFrame"):
        from storyframes import extract

        table = extract(videos[0], "opensmile", cache=False).to_pandas()
    print(f"          {table.shape[0]} rows, {table.shape[1]} columns")

    with step(f"{len(videos)} recordings are a study"):
        storyframes("init", str(study), "--videos", "*")
    with step("the study has features and clips"):
        storyframes("extract", str(study), str(features), "--config", str(config))
    with step("a report"):
        storyframes("report", str(study), str(features), "--config", str(config), "--out", str(made / "report"))
    with step("an epoch of training"):
        loss, clips = epoch(features)
    print(f"          {clips} clips, mean loss {loss:.3f}")
    print(f"{time.monotonic() - began:6.1f} s  all of it. Open {made / 'report/index.html'}")


def epoch(features: Path) -> tuple[float, int]:
    """Learn to tell the next 10 ms of the sound from the last, without labels. The mean loss, and how many clips."""
    import torch

    from storyframes import ClipDataset, ClipLoader, UniformSampler

    train = ClipDataset(features, ["audio"], 'split == "train"')
    model = torch.nn.GRU(train.fields["audio"].shape[1], 65, batch_first=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for batch in ClipLoader(train, 8, UniformSampler(train, seed=0)):
        sound, known = batch["audio"], ~batch["audio"].isnan()  # openSMILE has no F0 where nobody speaks, for example
        centred = sound - sound.nanmean((0, 1))
        scaled = (centred / centred.square().nanmean((0, 1)).sqrt().clamp(min=1e-6)).nan_to_num()
        guess, _ = model(scaled[:, :-1])
        loss = ((guess - scaled[:, 1:]) ** 2)[known[:, 1:]].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses), len(train)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
