"""Weights of the architectures that py-feat has, small and made here: ``make_weights.py PROGRAM FOLDER``.

The published ones cannot be had where tests run. RetinaFace's are set by hand, so that a test says what is a face: a
red spot of a dozen pixels over a point that its coarse map looks at (every 16th pixel). How red decides the score, how
green the size of the box. The multitask network is the real one with the smallest backbone, at random.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import faces  # noqa: F401 - prepares py-feat's modules
import torch
from feat.face_detectors.Retinaface.Retinaface_model import RetinaFace
from feat.multitask.model_v2 import MEGraphAUv2, ModelV2Config
from safetensors.torch import save_file


def face_detector() -> dict[str, torch.Tensor]:
    state = RetinaFace().state_dict()
    for name, values in state.items():  # every convolution silent, every normalisation the identity
        if not name.endswith("num_batches_tracked"):
            one = name.endswith("running_var") or (values.ndim == 1 and name.endswith(".weight"))
            values.fill_(1.0 if one else 0.0)
    first = state["body.conv1.weight"]
    first[0, 0, 3, 3], first[0, 2, 3, 3], first[1, 1, 3, 3] = 1 / 255, -1 / 255, 1 / 255  # red less blue; green
    passing = [f"body.layer{number}.0.downsample.0.weight" for number in (2, 3, 4)]
    for name in [*passing, "fpn.output2.0.weight", "fpn.merge2.0.weight", "ssh2.conv3X3.0.weight"]:
        middle = state[name].shape[-1] // 2
        for channel in (0, 1):
            state[name][channel, channel, middle, middle] = 1
    for level in range(3):
        state[f"ClassHead._convs.{level}.bias"][[0, 2]] = 20.0  # nothing
    state["ClassHead._convs.1.bias"][:2] = torch.tensor([9.0, 0.0])
    state["ClassHead._convs.1.weight"][1, 0] = 20.0  # 64 pixels wide: the first anchor of the second map
    state["BboxHead._convs.1.weight"][[2, 3], 1] = 6.0
    return state


def multitask() -> tuple[dict[str, torch.Tensor], ModelV2Config]:
    config = ModelV2Config(
        backbone="convnextv2_atto", n_au=20, n_emotion=7, n_blendshape=52, mesh_normalized=True, afg_channels=64,
        mefl_channels=64, unified_lmk_dim=32, pretrained=False, use_head_v3=True, drop_mefl=True,
        emotion_use_au_prob=True, gaze_eye_roi=True, gaze_eye_dim=32, gaze_pose_6d=True,
    )  # fmt: skip
    torch.manual_seed(27)
    model = MEGraphAUv2(config)
    state = model.state_dict()
    for name, values in state.items():
        if values.is_floating_point() and values.ndim > 1:
            values.normal_(0, 2 / values[0].numel() ** 0.5)
        elif "grn" in name:
            values.normal_(0, 1)
    return state, config


folder = Path(sys.argv[2])
save_file(face_detector(), folder / "retinaface_r34.safetensors")
state, config = multitask()
save_file(state, folder / "face_multitask_v28.safetensors", {"config": json.dumps(asdict(config))})
older = asdict(config) | {"n_au": 24, "n_emotion": 8}
old_model = MEGraphAUv2(ModelV2Config(**older))
save_file(old_model.state_dict(), folder / "older.safetensors", {"config": json.dumps(older)})
