"""What of a feature may be released without more ado, and what only with a permission.

A person can be recognised by a face's landmarks and its shape, by a body's proportions and gait, by the spectrum of a
voice, and by what a network made of a picture or of sound. So all of that is biometric, and so is every feature that
this program does not know. What OpenFace says of movements (action units, gaze, head pose) is not: it is the same
scale for every face. Words can be read from word vectors, so these are never released; from vectors of utterances and
stories a text can be guessed, so they need a permission of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from storyframes.features import FEATURES
from storyframes.label_curves import is_label_curve
from storyframes.spec import Axis, FeatureSpec

_MOVEMENTS = ("bookkeeping", "gaze", "pose", "action_units")
_OPENFACE = FEATURES["openface"]
HARMLESS_COLUMNS = frozenset(name for group in _MOVEMENTS for name in _OPENFACE.columns[_OPENFACE.groups[group]])
"""Of OpenFace: by which nobody is recognised."""
_TEXTS = {"transcript", "stories"}
_READ = "feature "  # begins the names of tools that are other features (tasks/extractors/base.py)
_WITHOUT_TEXT = {"frames", "openface", "resnet50", "dope", "opensmile"}


class Sensitive(StrEnum):
    """Why something needs a permission: the key of the configuration that gives it."""

    BIOMETRIC = "allow_biometric"
    TEXT = "allow_text_vectors"
    NEVER = "never"


def sensitivity(
    feature: str,
    spec: FeatureSpec,
    is_known: bool,
    columns: Mapping[str, tuple[str, ...]],
    provenance: Mapping[str, Any],
) -> set[Sensitive]:
    """What a released feature needs.

    Args:
        feature: the feature.
        spec: of it, as the store has it.
        is_known: whether it is just what the built-in feature of its name is.
        columns: of each array that is released, the columns.
        provenance: of its version.
    """
    axes = {array.axis for array in spec.arrays.values()}
    if Axis.WORD in axes:
        return {Sensitive.NEVER}
    if is_known and (feature == "frames" or is_label_curve(feature)):
        return set()
    if is_known and feature == "openface":
        return set() if set(columns.get("values", ())) <= HARMLESS_COLUMNS else {Sensitive.BIOMETRIC}
    if is_known and axes & {Axis.UTTERANCE, Axis.STORY}:
        return {Sensitive.TEXT}
    if is_known:
        return {Sensitive.BIOMETRIC}
    spoken = axes & {Axis.UTTERANCE, Axis.STORY}
    texts = set() if _is_without_text(provenance) and not spoken else {Sensitive.TEXT}
    return {Sensitive.BIOMETRIC, *texts}


def _is_without_text(provenance: Mapping[str, Any]) -> bool:
    """Whether its extractor says that it reads no words, and it was made of no feature that may be of words.

    Versions of before extractors' word was kept do not say so: speech may have been recognised in a sound.
    """
    inputs, tools = provenance.get("inputs"), provenance.get("tools", {})
    if provenance.get("private") is not False or not isinstance(inputs, dict) or not inputs or _TEXTS & set(inputs):
        return False
    read = {str(name).removeprefix(_READ) for name in tools if str(name).startswith(_READ)}
    return read <= _WITHOUT_TEXT
