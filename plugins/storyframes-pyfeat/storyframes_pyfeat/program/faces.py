"""py-feat's Detectorv2 on frames, with weights from files of this machine, and its results as rows of arrays."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import columns
import numpy as np

os.environ["HF_HUB_OFFLINE"] = "1"

# What py-feat imports to read videos, to draw and for its older detectors. None of it is in this environment.
_UNUSED = {
    "feat.data": ("Fex", "ImageDataset", "TensorDataset", "VideoDataset"),
    "matplotlib": (),
    "matplotlib.patches": ("Rectangle",),
    "matplotlib.pyplot": (),
    "skimage": ("draw",),
    "skimage.morphology": (),
    "skimage.morphology.convex_hull": ("grid_points_in_poly",),
    "torchcodec": (),
    "torchcodec.decoders": ("VideoDecoder",),
}


def _module(name: str, **attributes: Any) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(attributes)
    return module


def _import_detector() -> type:
    """Detectorv2 without ``feat/__init__``, which imports all of py-feat."""
    spec = importlib.util.find_spec("feat")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("py-feat is not installed in this environment")
    _module("feat", __path__=list(spec.submodule_search_locations))
    for name, attributes in _UNUSED.items():
        _module(name, **dict.fromkeys(attributes))
    from feat.detector_v2 import Detectorv2

    return Detectorv2


def _import_torchvision() -> bool:
    """Whether torchvision's compiled operators are there: PyPI's wheel has none beside a CPU build of torch."""
    try:
        import torchvision.extension
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for operator in ("nms", "qnms"):  # its Python code registers more about these two, so they have to exist
            _OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision.extension
    return bool(torchvision.extension._has_ops())


import torch  # noqa: E402 - so that every import of a library follows the lines above
import torch.nn.functional as nnf  # noqa: E402

_OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
HAS_OPERATORS = _import_torchvision()
Detectorv2 = _import_detector()

import feat.face_detectors.Retinaface.Retinaface_test as retinaface  # noqa: E402 - feat is prepared above
import feat.multitask.heads_v26 as heads  # noqa: E402
import feat.utils  # noqa: E402


def batched_nms(boxes: torch.Tensor, scores: torch.Tensor, groups: torch.Tensor, threshold: float) -> torch.Tensor:
    """What torchvision's ``batched_nms`` gives, without its compiled operators.

    Args:
        boxes: (n, 4), left, top, right, bottom.
        scores: (n,)
        groups: (n,), boxes of different groups never suppress each other.
        threshold: the overlap (intersection over union) above which the box with the lower score is dropped.

    Returns:
        The indices of what is kept, highest score first.
    """
    order = torch.argsort(scores, descending=True, stable=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        sides = torch.minimum(boxes[order, 2:], boxes[best, 2:]) - torch.maximum(boxes[order, :2], boxes[best, :2])
        shared = sides.clamp(min=0).prod(dim=1)
        overlaps = shared / (areas[order] + areas[best] - shared) > threshold
        order = order[~(overlaps & (groups[order] == groups[best]))]
    return torch.stack(kept) if kept else order


def roi_align(
    maps: torch.Tensor, boxes: torch.Tensor, output_size: int, spatial_scale: float, aligned: bool
) -> torch.Tensor:
    """What torchvision's ``roi_align`` gives for squares of one size, without its compiled operators.

    torchvision's own replacement repeats the border where the operator counts what is beyond as 0.

    Args:
        maps: (n, channels, height, width)
        boxes: (k, 5), the number of the map, left, top, right, bottom.
        output_size: of the squares that come out: (k, channels, output_size, output_size).
        spatial_scale: of the boxes' coordinates to the maps'.
        aligned: as py-feat calls it, true; a cell's value is that of its centre.
    """
    corners = boxes[:, 1:] * spatial_scale - 0.5 * aligned
    size = corners[:, 2:] - corners[:, :2]
    samples = int(torch.ceil(size.max() / output_size))
    steps = (torch.arange(output_size * samples) + 0.5) / (output_size * samples)
    x, y = (corners[:, axis, None] + steps * size[:, axis, None] for axis in (0, 1))
    height, width = maps.shape[-2:]
    inside = ((y >= -1) & (y <= height))[:, :, None] & ((x >= -1) & (x <= width))[:, None, :]
    grid_x, grid_y = (2 * at.clamp(0, last) / last - 1 for at, last in ((x, width - 1), (y, height - 1)))
    across, down = grid_x[:, None, :].expand(inside.shape), grid_y[:, :, None].expand(inside.shape)
    values = nnf.grid_sample(maps[boxes[:, 0].long()], torch.stack([across, down], dim=-1), align_corners=True)
    return nnf.avg_pool2d(values * inside[:, None], samples)


if not HAS_OPERATORS:
    retinaface.batched_nms = batched_nms
    heads.roi_align = roi_align


class Faces:
    """What Detectorv2 says of the largest face in each frame.

    Args:
        face_detector, multitask: paths of the weights, ``.safetensors``.
        settings: of the plug-in, by name.
        threads: how many torch may use.

    Raises:
        SystemExit: a file has other weights than these; the message says which and what is expected.
    """

    def __init__(self, face_detector: str, multitask: str, settings: Mapping[str, Any], threads: int) -> None:
        torch.set_num_threads(threads)
        feat.utils.hf_hub_download_with_fallback = lambda **_: face_detector
        self._threshold = settings["min_face_detection_confidence"]
        try:
            retinaface.Retinaface(device="cpu")  # alone first, so that the message names the right file
        except Exception as error:
            raise SystemExit(_not_the_weights(face_detector, "RetinaFace (resnet34)", error)) from None
        try:
            self._detector = Detectorv2(device="cpu", identity_model=None, multitask_weights=multitask)
        except Exception as error:
            raise SystemExit(_not_the_weights(multitask, "py-feat's multitask network", error)) from None
        network = self._detector.multitask
        found = (tuple(network.au_names), tuple(network.emotion_names), network.cfg.n_blendshape)
        if found != (columns.AU, columns.EMOTION, len(columns.BLENDSHAPES)) or not network.cfg.mesh_normalized:
            raise SystemExit(
                f"{os.path.basename(multitask)} has {len(found[0])} action units, {len(found[1])} emotions and "
                f"{found[2]} blendshapes, expected 20, 7 and 52 of a normalised mesh: it is another generation of "
                "py-feat's multitask network; take face_multitask_v28.safetensors"
            )
        self._detector.face_detector.detection_threshold = self._threshold

    def rows_of(self, rgb: np.ndarray) -> dict[str, np.ndarray]:
        """The rows of these frames, (n, height, width, 3) uint8, by array; NaN where no face was found."""
        images = torch.from_numpy(np.ascontiguousarray(rgb.transpose(0, 3, 1, 2)))
        per_frame = self._detector.detect_faces(images, face_detection_threshold=self._threshold)
        counts = [0 if frame["boxes"].isnan().any() else len(frame["boxes"]) for frame in per_frame]
        ones, zeros = torch.ones(len(rgb)), torch.zeros(len(rgb))
        padding = dict.fromkeys(("Left", "Top", "Right", "Bottom"), zeros)
        batch = {"Image": images, "Scale": ones, "Padding": padding}  # as py-feat's TensorDataset has them
        table = self._detector.forward([_largest(frame) for frame in per_frame], batch)

        def values(names: tuple[str, ...]) -> np.ndarray:
            return table[list(names)].to_numpy(np.float32)

        found = np.array(counts) > 0
        points = [values(tuple(f"{axis}_{number}" for number in range(68))) for axis in "xy"]
        score = values(columns.SCORE)[:, 0]
        return {
            "found": found.astype(np.uint8),
            "faces": np.array(counts, np.int16),
            "au": values(columns.AU),
            "emotion": values(columns.EMOTION),
            "affect": values(columns.AFFECT),
            "head_pose": values(columns.POSE),
            "gaze": values(columns.GAZE),
            "blendshapes": values(columns.BLENDSHAPES),
            "landmarks_2d": np.stack(points, axis=-1),
            "box": values(columns.BOX),
            "score": np.where(found, score, np.nan).astype(np.float32),
        }


def _largest(frame: Mapping[str, Any]) -> dict[str, Any]:
    """py-feat's record of a frame with its largest face alone; the one with the highest score where several are."""
    boxes = frame["boxes"]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen = int(np.argmax(areas.numpy()))  # they are sorted by score
    kept = {name: frame[name][chosen : chosen + 1] for name in ("faces", "boxes", "new_boxes", "scores")}
    return {**frame, **kept}


def _not_the_weights(path: str, expected: str, error: Exception) -> str:
    why = " ".join(str(error).split())[:200]
    return f"{os.path.basename(path)} is not a .safetensors file with the weights of {expected}: {why}"
