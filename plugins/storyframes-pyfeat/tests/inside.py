"""What py-feat and the program's parts do, asked in their environment at once, since a start of it takes seconds.

``inside.py PROGRAM FACES MULTITASK [FACES MULTITASK ...]``, beside ``frames.npy``: leaves what py-feat's Detectorv2
says where it is called directly, frame after frame, a row for every face (``direct.csv``); what each pair of weights
but the first is refused with (``said.json``); the rows at a lower threshold (``more.npz``); which of many boxes are
kept (``boxes.npz``); and what is pooled of squares on a map, some of them beyond it (``squares.npz``).
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import faces
import feat.utils
import numpy as np
import pandas as pd
import torch

good, also_good, *others = sys.argv[2:]
frames = np.load("frames.npy")
torch.set_num_threads(1)

feat.utils.hf_hub_download_with_fallback = lambda **_: good
detector = faces.Detectorv2(device="cpu", identity_model=None, multitask_weights=also_good)
tables = []
for number, rgb in enumerate(frames):
    image = torch.from_numpy(rgb).permute(2, 0, 1)[None].contiguous()
    zero = {side: torch.zeros(1) for side in ("Left", "Top", "Right", "Bottom")}
    found = detector.detect_faces(image, face_detection_threshold=0.5)
    table = detector(found, {"Image": image, "Scale": torch.ones(1), "Padding": zero})
    tables.append(table.assign(frame=number))
pd.concat(tables).to_csv("direct.csv", index=False)

said = []
for face_detector, multitask in zip(others[::2], others[1::2], strict=True):
    try:
        faces.Faces(face_detector, multitask, {"min_face_detection_confidence": 0.5}, 1)
    except SystemExit as refusal:
        said.append(str(refusal))
with open("said.json", "w") as file:
    json.dump(said, file)

more = faces.Faces(good, also_good, {"min_face_detection_confidence": 0.2}, 1)
np.savez("more.npz", **more.rows_of(frames))

random = np.random.default_rng(3)
corners, sizes = random.uniform(0, 60, (300, 2)), random.uniform(5, 40, (300, 2))
boxes = np.concatenate([corners, corners + sizes], axis=1).astype(np.float32)
scores, groups = random.permutation(300).astype(np.float32), random.integers(0, 3, 300)
kept = faces.batched_nms(*map(torch.from_numpy, (boxes, scores, groups)), 0.4)
of_none = faces.batched_nms(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long), 0.4)
np.savez("boxes.npz", boxes=boxes, scores=scores, groups=groups, kept=kept.numpy(), of_none=of_none.numpy())

maps = random.normal(size=(2, 3, 7, 9)).astype(np.float32)
places = random.uniform(-50, 130, (40, 2))
squares = np.concatenate([random.integers(0, 2, (40, 1)), places, places + 70], axis=1).astype(np.float32)
pooled = faces.roi_align(torch.from_numpy(maps), torch.from_numpy(squares), 4, 1 / 16, True)
np.savez("squares.npz", maps=maps, squares=squares, pooled=pooled.numpy())
