"""Which settings fit which model: what a model cannot be given is refused before anything begins."""

from __future__ import annotations

from collections.abc import Sequence

from storyframes_empathy.training.settings import ModelName, TrainSettings

TAKES_OWN_ROWS = (ModelName.LF_LSTM, ModelName.TFN)
"""The models whose modalities need not have a row for each frame."""


def misfit(model: ModelName, modalities: Sequence[str], settings: TrainSettings) -> str:
    """Why a model cannot be trained so; empty where it can."""
    if settings.personality is not None and model is not ModelName.AMER:
        return (
            f"{model} takes no personality, only {ModelName.AMER} does: leave it out, or train {ModelName.AMER} alone"
        )
    own = [part for name in modalities for part in settings.parts(name) if part.has_own_rows]
    if own and model not in TAKES_OWN_ROWS:
        why = {
            ModelName.EF_LSTM: "joins the modalities frame by frame",
            ModelName.AMER: "looks from the middle frame of a window",
        }[model]
        return (
            f'{model} {why}, and the input {own[0].input!r} with axis = "{own[0].axis}" has rows of its own: leave '
            f"the axis out, or train {' or '.join(TAKES_OWN_ROWS)}"
        )
    if own and model is ModelName.TFN and settings.tfn.padding_counts:
        return (
            f'[tfn] padding_counts = true, and the input {own[0].input!r} with axis = "{own[0].axis}" is padded to '
            "the longest clip of the study: its mean would depend on clips that nobody trains with"
        )
    return ""
