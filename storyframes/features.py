"""The built-in features: their arrays, axes, dtypes, units and the name of every column.

This table is the contract between the pipeline that writes a feature store and its readers. Column names are stable: a
column keeps its name and its place for as long as the store's format number stays the same. A store has the same
specification of each of its features, built in or not (:mod:`storyframes.store.description`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from storyframes.spec import MAIN, ArraySpec, Axis, FeatureSpec, feature_and_track

__all__ = [
    "AUDIO_HOP_S",
    "BODY_JOINTS",
    "COMPARE_2016_COLUMNS",
    "FACE_LANDMARKS",
    "FEATURES",
    "FINGERS",
    "HAND_JOINTS",
    "MEASURED_VISION",
    "OPENFACE_COLUMNS",
    "SIDE_BY_SIDE",
    "STORIES",
    "STORY_FEATURES",
    "VISION",
    "ArraySpec",
    "Axis",
    "FeatureSpec",
    "column_unit",
    "feature_spec",
    "in_order",
]

AUDIO_HOP_S = 0.01
"""Seconds from one row of ``opensmile`` to the next."""

# --- OpenFace 2: the columns of FeatureExtraction -2Dfp -3Dfp -pdmparams -pose -aus -gaze, in file order -------------

_AU_INTENSITY = "01 02 04 05 06 07 09 10 12 14 15 17 20 23 25 26 45".split()
_AU_PRESENCE = sorted([*_AU_INTENSITY, "28"])


def _numbered(prefixes: str, count: int) -> list[str]:
    return [f"{prefix}_{i}" for prefix in prefixes.split() for i in range(count)]


_OPENFACE_GROUPS: dict[str, list[str]] = {
    "bookkeeping": ["frame", "face_id", "timestamp", "confidence", "success"],
    "gaze": [*(f"gaze_{eye}_{xyz}" for eye in (0, 1) for xyz in "xyz"), "gaze_angle_x", "gaze_angle_y"],
    "eye_landmarks": _numbered("eye_lmk_x eye_lmk_y eye_lmk_X eye_lmk_Y eye_lmk_Z", 56),
    "pose": ["pose_Tx", "pose_Ty", "pose_Tz", "pose_Rx", "pose_Ry", "pose_Rz"],
    "landmarks_2d": _numbered("x y", 68),
    "landmarks_3d": _numbered("X Y Z", 68),
    "shape": ["p_scale", "p_rx", "p_ry", "p_rz", "p_tx", "p_ty", *_numbered("p", 34)],
    "action_units": [*(f"AU{au}_r" for au in _AU_INTENSITY), *(f"AU{au}_c" for au in _AU_PRESENCE)],
}


def _slices(groups: Mapping[str, list[str]]) -> dict[str, slice]:
    slices, start = {}, 0
    for name, columns in groups.items():
        slices[name] = slice(start, start + len(columns))
        start += len(columns)
    return slices


OPENFACE_COLUMNS: tuple[str, ...] = tuple(column for group in _OPENFACE_GROUPS.values() for column in group)

_OPENFACE = FeatureSpec(
    name="openface",
    about="OpenFace 2 facial behaviour: gaze, head pose, landmarks, shape, action units (Baltrusaitis et al., 2018)",
    arrays={
        "values": ArraySpec(
            Axis.FRAME,
            "float32",
            "the CSV's columns; angles in radians, landmarks in pixels (2-D) and mm (3-D), AUnn_r 0..5, AUnn_c 0/1. "
            "Rows with valid = 0 are not measurements: NaN where a face was never tracked, stale where it was lost",
            shape=(714,),
            dims=("column",),
            columns=OPENFACE_COLUMNS,
        ),
        "valid": ArraySpec(Axis.FRAME, "uint8", "1 where OpenFace tracked a face in this frame (success)", fill=0),
        "confidence": ArraySpec(
            Axis.FRAME, "float32", "OpenFace's confidence 0..1, a copy of that column for quick scans"
        ),
    },
    groups={**_slices(_OPENFACE_GROUPS), "measurements": slice(len(_OPENFACE_GROUPS["bookkeeping"]), 714)},
    mask="valid",
    face="valid",
)

_OPENFACE_UNITS = {
    "timestamp": "s",
    r"gaze_angle_.|pose_R.|p_r.": "rad",
    r"(eye_lmk_)?[xy]_\d+|p_t.": "pixels",
    r"(eye_lmk_)?[XYZ]_\d+|pose_T.": "mm",
    r"AU\d\d_r": "0 to 5",
    r"AU\d\d_c": "0 or 1",
}


def column_unit(feature: str, column: str) -> str:
    """The unit of a column of OpenFace, whose columns have several; "" for one without a unit, and other features."""
    units = _OPENFACE_UNITS.items() if feature == "openface" else ()
    return next((unit for pattern, unit in units if re.fullmatch(pattern, column)), "")


# --- ResNet50 --------------------------------------------------------------------------------------------------------

_RESNET50 = FeatureSpec(
    name="resnet50",
    about="ResNet-50 global average pool of the whole frame (He et al., 2016)",
    arrays={
        "values": ArraySpec(
            Axis.FRAME,
            "float16",
            "output of the average-pool layer",
            shape=(2048,),
            dims=("column",),
            columns=tuple(f"resnet50_{i:04d}" for i in range(2048)),
        )
    },
)

# --- DOPE ------------------------------------------------------------------------------------------------------------

# The order of the body joints is confirmed by DOPE's authors (naver/dope, issue 5). The names of the fingers and the
# sides of brows and eyes follow the layouts DOPE was trained on (HANDS'19, iBUG-68) and were not checked against the
# published weights. Left and right are the person's.
BODY_JOINTS = (
    *(f"{side}_{joint}" for joint in "ankle knee hip wrist elbow shoulder".split() for side in ("right", "left")),
    "head",
)

FINGERS = ("thumb", "index", "middle", "ring", "little")
HAND_JOINTS = (
    "wrist",
    *(f"{finger}_mcp" for finger in FINGERS),
    *(f"{finger}_{joint}" for finger in FINGERS for joint in ("pip", "dip", "tip")),
)

FACE_LANDMARKS = (
    *(*_numbered("jaw", 33), *_numbered("right_brow left_brow", 5), *_numbered("nose_ridge", 4)),
    *(*_numbered("nostrils", 5), *_numbered("right_eye left_eye", 6)),
    *(*_numbered("outer_lip", 12), *_numbered("inner_lip", 8)),
)

_PIXELS = "pixels of the frame, x to the right, y down; may lie outside the frame"
_BODY_3D = "metres from the body's centre; X to the image's left, Y up, Z completes the frame (its sign unchecked)"
_PART_3D = "the part's own frame, X to the right, Y down; unit and origin are not documented by DOPE"


def _poses(
    axis: Axis, part: str, joints: tuple[str, ...], *, hands: bool = False, optional: bool = False
) -> dict[str, ArraySpec]:
    """The arrays of one part: 2-D, 3-D and score, one row per frame or per detection."""
    sides, side_dim = ((2,), ("side",)) if hands else ((), ())
    joint_dim = "landmark" if part == "face" else f"{part.removesuffix('s')}_joint"
    of = "the hand at the left wrist, then at the right one; " if hands else ""
    about, score = f"{of}NaN where none was found", "sum of the averaged poses' probabilities, can exceed 1"
    shape, dims = (*sides, len(joints)), (*side_dim, joint_dim)
    units_3d = _BODY_3D if part == "body" else _PART_3D
    array = partial(ArraySpec, axis, "float32", optional=optional)
    return {
        f"{part}_2d": array(about, (*shape, 2), (*dims, "xy"), columns=("x", "y"), joints=joints, units=_PIXELS),
        f"{part}_3d": array(about, (*shape, 3), (*dims, "xyz"), columns=("X", "Y", "Z"), joints=joints, units=units_3d),
        f"{part}_score": array(score, sides, side_dim),
    }


def _everybody() -> dict[str, ArraySpec]:
    """The arrays of all persons: flat, one row per detection, and where each frame's rows start."""
    arrays: dict[str, ArraySpec] = {}
    for axis, joints in ((Axis.BODY, BODY_JOINTS), (Axis.HAND, HAND_JOINTS), (Axis.FACE, FACE_LANDMARKS)):
        poses = _poses(axis, str(axis), joints, optional=True)
        arrays |= {f"all_{name}": spec for name, spec in poses.items()}
        arrays[f"all_{axis}_offsets"] = ArraySpec(
            Axis.FRAME_EDGE,
            "int64",
            f"frame t has rows offsets[t] to offsets[t + 1] of all_{axis}_*",
            fill=0,
            optional=True,
        )
    arrays["all_hand_is_right"] = ArraySpec(
        Axis.HAND, "uint8", "1 where the network takes it for a right hand", fill=0, optional=True
    )
    arrays["all_hands_of_body"] = ArraySpec(
        Axis.BODY, "int32", "rows of the hands at its left and right wrist, -1 none", (2,), ("side",), -1, optional=True
    )
    arrays["all_face_of_body"] = ArraySpec(Axis.BODY, "int32", "row of its face, -1 none", fill=-1, optional=True)
    return arrays


_DOPE = FeatureSpec(
    name="dope",
    about="DOPE poses of the participant's body, hands and face (Weinzaepfel et al., 2020)",
    arrays={
        **_poses(Axis.FRAME, "body", BODY_JOINTS),
        **_poses(Axis.FRAME, "hands", HAND_JOINTS, hands=True),
        **_poses(Axis.FRAME, "face", FACE_LANDMARKS),
        "n_detected": ArraySpec(
            Axis.FRAME,
            "int16",
            "how many were found in the frame, the participant's included; -1 in a frame that was skipped",
            (3,),
            ("part",),
            -1,
            columns=("bodies", "hands", "faces"),
        ),
        "sampled": ArraySpec(
            Axis.FRAME, "uint8", "1 where the frame went through the network, 0 where every_n_frames skipped it", fill=0
        ),
        **_everybody(),
    },
    mask="sampled",
    face="face_2d",
)

# --- openSMILE: ComParE 2016 low-level descriptors ------------------------------------------------------------------

_SPECTRAL = (
    "spectralFlux spectralCentroid spectralEntropy spectralVariance spectralSkewness spectralKurtosis spectralSlope "
    "psySharpness spectralHarmonicity"
)

COMPARE_2016_COLUMNS: tuple[str, ...] = (
    *"F0final_sma voicingFinalUnclipped_sma jitterLocal_sma jitterDDP_sma shimmerLocal_sma logHNR_sma".split(),
    *"audspec_lengthL1norm_sma audspecRasta_lengthL1norm_sma pcm_RMSenergy_sma pcm_zcr_sma".split(),
    *(f"audSpec_Rfilt_sma[{band}]" for band in range(26)),
    *"pcm_fftMag_fband250-650_sma pcm_fftMag_fband1000-4000_sma".split(),
    *(f"pcm_fftMag_spectralRollOff{share}_sma" for share in ("25.0", "50.0", "75.0", "90.0")),
    *(f"pcm_fftMag_{name}_sma" for name in _SPECTRAL.split()),
    *(f"mfcc_sma[{i}]" for i in range(1, 15)),
)

_OPENSMILE = FeatureSpec(
    name="opensmile",
    about="openSMILE low-level descriptors, ComParE 2016 unless the attributes say otherwise (Schuller et al., 2016)",
    arrays={
        "values": ArraySpec(
            Axis.AUDIO_FRAME,
            "float32",
            "one row per 10 ms hop; NaN where the sound has no such value: F0, jitter, shimmer and HNR where it is not "
            "voiced, formants where none is found",
            shape=(65,),
            dims=("descriptor",),
            columns=COMPARE_2016_COLUMNS,
        ),
        "time": ArraySpec(
            Axis.AUDIO_FRAME, "float64", "start of the row's analysis window on the recording's clock", units="s"
        ),
        "per_frame": ArraySpec(
            Axis.FRAME,
            "float32",
            "of each column, the mean of the rows that have a value and whose time lies in the video frame's interval; "
            "NaN where there is none",
            shape=(65,),
            dims=("descriptor",),
            columns=COMPARE_2016_COLUMNS,
        ),
        "voiced_share": ArraySpec(
            Axis.FRAME,
            "float32",
            "share of the rows in the video frame's interval that are voiced (have an F0); NaN where there is no row",
            optional=True,  # older stores do not have it
        ),
    },
)

# --- Text ------------------------------------------------------------------------------------------------------------


def _word_vector(axis: Axis, about: str) -> ArraySpec:
    columns = tuple(f"glove_{i:03d}" for i in range(300))
    return ArraySpec(axis, "float32", about, shape=(300,), dims=("column",), columns=columns)


def _sentence_vector(axis: Axis, about: str) -> ArraySpec:
    columns = tuple(f"sbert_{i:03d}" for i in range(384))
    return ArraySpec(axis, "float32", about, shape=(384,), dims=("column",), columns=columns)


def _span(axis: Axis) -> dict[str, ArraySpec]:
    return {
        "start": ArraySpec(axis, "float64", f"when the {axis} starts on the recording's clock", units="s"),
        "end": ArraySpec(axis, "float64", f"when the {axis} ends on the recording's clock", units="s"),
    }


def _frame_row(axis: Axis) -> ArraySpec:
    return ArraySpec(Axis.FRAME, "int32", f"the {axis} spoken at this frame's time, -1 where none is", fill=-1)


def _speaker(axis: Axis, *, optional: bool = False) -> ArraySpec:
    return ArraySpec(axis, "int16", "index into the attribute 'speakers'", fill=-1, optional=optional)


_GLOVE = FeatureSpec(
    name="glove",
    about="GloVe word vectors (Pennington et al., 2014)",
    arrays={
        "values": _word_vector(Axis.WORD, "the word's vector; NaN where the word is unknown"),
        **_span(Axis.WORD),
        "known": ArraySpec(Axis.WORD, "uint8", "1 where the vocabulary has the word", fill=0),
        "speaker": _speaker(Axis.WORD, optional=True),  # older stores do not have it
        "confidence": ArraySpec(
            Axis.WORD,
            "float32",
            "how sure the speech recogniser is of the word, 0..1; NaN where the transcript does not say",
            optional=True,  # older stores do not have it
        ),
        "frame_word": _frame_row(Axis.WORD),
    },
    mask="known",
)

_SBERT = FeatureSpec(
    name="sbert",
    about="Sentence-BERT utterance vectors (Reimers and Gurevych, 2019)",
    arrays={
        "values": _sentence_vector(Axis.UTTERANCE, "the utterance's embedding, unit length"),
        **_span(Axis.UTTERANCE),
        "speaker": _speaker(Axis.UTTERANCE),
        "frame_utterance": _frame_row(Axis.UTTERANCE),
    },
)

_FRAMES = FeatureSpec(
    name="frames",
    about="the clock of the session: one row per video frame that decodes",
    arrays={
        "time": ArraySpec(
            Axis.FRAME,
            "float64",
            "when the frame is shown, from the container's own timestamps; the first is 0",
            units="s",
        )
    },
)

FEATURES: Mapping[str, FeatureSpec] = {
    spec.name: spec for spec in (_FRAMES, _OPENFACE, _RESNET50, _DOPE, _OPENSMILE, _GLOVE, _SBERT)
}
"""Every feature of a session, by name."""

CLOCK = "frames"
"""The feature that is a session's clock: the times at which its frames are shown."""

STORIES = "stories"
"""The key of the story texts' features, beside the sessions."""

STORY_FEATURES: Mapping[str, FeatureSpec] = {
    "glove": FeatureSpec(
        name="glove",
        about="mean GloVe vector of each story's words",
        arrays={
            "values": _word_vector(Axis.STORY, "mean over the story's known words; NaN where none is known"),
            "known": ArraySpec(Axis.STORY, "float32", "share of the story's words that the vocabulary has"),
        },
    ),
    "sbert": FeatureSpec(
        name="sbert",
        about="Sentence-BERT vector of each story",
        arrays={"values": _sentence_vector(Axis.STORY, "the story's embedding, unit length")},
    ),
}
"""The features of the story texts; the attribute ``story_ids`` names the rows."""

VISION: tuple[str, ...] = ("openface", "resnet50")
"""``vision`` is these two side by side: the 2762 columns of the paper's visual input, five of them bookkeeping."""

MEASURED_VISION = "vision.measured"
"""``vision`` without the bookkeeping (frame number, face, time, confidence, success): 2757 columns."""

SIDE_BY_SIDE: Mapping[str, tuple[str, ...]] = {
    MEASURED_VISION: ("openface.measurements", "resnet50.values"),
    "vision": ("openface.values", "resnet50.values"),
    "audio": ("opensmile",),
    "words": ("glove",),
    "sentence": ("sbert",),
}
"""Names that stand for other features, or parts of them, whose columns follow one another."""


def in_order(features: Iterable[str]) -> list[str]:
    """Features in the order for display: the built-in ones as in :data:`FEATURES`, then the others by name.

    Features of the sessions' own files come first, then those of other tracks, track by track.
    """
    place = {name: number for number, name in enumerate(FEATURES)}
    names = set(features)
    keys = {
        name: (track != MAIN, track, place.get(feature, len(place)), feature)
        for name, (feature, track) in zip(names, map(feature_and_track, names), strict=True)
    }
    return sorted(names, key=keys.__getitem__)


def feature_spec(session_id: str, feature: str) -> FeatureSpec:
    """The specification of ``feature`` in a session's (or, for ``stories``, the stories') part of the store.

    Raises:
        KeyError: the name is unknown; the message lists the known ones.
    """
    table = STORY_FEATURES if session_id == STORIES else FEATURES
    if feature not in table:
        raise KeyError(f"there is no feature {feature!r}; there are {', '.join(table)}")
    return table[feature]
