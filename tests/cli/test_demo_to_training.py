"""From the demo to a step of training, and what verify says of a byte that flips in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.commands import ROOT, storyframes_here
from support.messages import missing

from storyframes import ClipDataset
from storyframes.clips.loader import ClipLoader
from tasks.media.synthesize import SyntheticStudy, write_study

pytestmark = [pytest.mark.slow, pytest.mark.end_to_end]


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the demo, on one processor and of two short sessions: it keeps what is in its folder."""
    folder = tmp_path_factory.mktemp("newcomer")
    demo = folder / "storyframes-demo"
    write_study(demo / "study", SyntheticStudy(sessions=2, seconds=3, width=160, height=120))
    configuration = (ROOT / "demo/storyframes.toml").read_text()
    small = "\n[clips]\nwindow = 15\nstride = 5\nsplit_shares = [1, 0, 0]\n[cluster]\ncpus = 1\n"
    (demo / "storyframes.toml").write_text(configuration + small)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "flows.cli", "demo"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert result.returncode == 0, result.stderr
    assert (
        missing(result.stdout, "14 extracted", "0 failed", "vision.measured (15, 2757) float32", "untrained weights")
        == []
    )
    return demo / "features"


def test_a_clip_of_the_demo_trains(features: Path) -> None:
    torch.manual_seed(0)
    dataset = ClipDataset(features, ["vision.measured", "audio", "label"])
    batch = next(iter(ClipLoader(dataset, 4)))
    assert batch["vision.measured"].shape == (4, 15, 2757)
    assert batch["audio"].shape[0] == 4
    model = torch.nn.Linear(2757, 5)
    before = model.weight.detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = torch.nn.functional.cross_entropy(model(batch["vision.measured"].nan_to_num().mean(1)), batch["label"] - 1)
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    assert torch.isfinite(model.weight).all()
    assert not torch.equal(model.weight, before)


def test_verify_finds_a_byte_of_the_demo_that_flipped(features: Path) -> None:
    assert storyframes_here("verify", features).returncode == 0
    (shard,) = (features / "s0002/resnet50").glob("*/values/c/0/0")
    content = bytearray(shard.read_bytes())
    content[1000] ^= 1
    shard.write_bytes(content)
    damaged = storyframes_here("verify", features)
    content[1000] ^= 1
    shard.write_bytes(content)
    assert damaged.returncode == 1
    assert missing(damaged.stdout, "s0002", "resnet50", "checksum") == []
    assert storyframes_here("verify", features).returncode == 0
