"""The deterministic fake model (164 MB), made once and kept in a cache folder.

Its maker and the reference results are not part of the project but of the folder ``shared`` beside the checkout,
or wherever STORYFRAMES_SHARED says.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

SEED = 7
# Looked up here, on import: the tests of the project run with a cache folder of their own, and this one is to stay.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "storyframes-tests"
DIGEST = "08d91dcda793d65fc4c1031092b3e6de8cc00fbbf329be9f31877e178d3a48db"  # of the arrays, not of the file


def shared_folder() -> Path:
    """Folder with SPEC.md, make_checkpoint.py and reference.npz; may be absent."""
    shared = os.environ.get("STORYFRAMES_SHARED")
    return (Path(shared) if shared else Path(__file__).parents[3] / "../shared").resolve() / "dope"


def fake_checkpoint() -> Path:
    """The model file, made where it is missing or not what it should be.

    Raises:
        FileNotFoundError: the shared folder is absent.
        RuntimeError: this machine makes other numbers.
    """
    maker = _maker(shared_folder() / "make_checkpoint.py")
    path = CACHE / f"dope-fake-seed{SEED}.pth.tgz"
    if not path.exists() or _digest(path, maker) != DIGEST:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            torch.save(_content(maker), made)
            if _digest(made, maker) != DIGEST:
                raise RuntimeError(f"the fake DOPE model has digest {_digest(made, maker)}; it must be {DIGEST}")
            made.replace(path)
    return path


def _maker(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_checkpoint", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _content(maker: ModuleType) -> dict[str, Any]:
    arrays = maker.build(SEED)
    tensors: dict[int, torch.Tensor] = {}  # the ResNet is there twice; shared, as in the published files
    state_dict = {key: tensors.setdefault(id(array), torch.from_numpy(array)) for key, array in arrays.items()}
    ppi = {f"{part}_ppi_kwargs": dict(options) for part, options in maker.PPI.items()}
    dope_kwargs = {"num_anchor_poses": dict(maker.ANCHORS)}
    return {"half": False, "dope_kwargs": dope_kwargs, "state_dict": state_dict, **ppi}


def _digest(path: Path, maker: ModuleType) -> str:
    try:
        content = torch.load(path, weights_only=True)
    except Exception:  # a file that a killed run or a full disk left behind
        return "unreadable"
    return maker.digest({key: tensor.numpy() for key, tensor in content["state_dict"].items()})
