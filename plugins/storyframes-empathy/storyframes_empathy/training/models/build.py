"""A model by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from storyframes_empathy.training.models.amer import Amer
from storyframes_empathy.training.models.ef_lstm import EfLstm
from storyframes_empathy.training.models.lf_lstm import LfLstm
from storyframes_empathy.training.models.tfn import Tfn
from storyframes_empathy.training.settings import ModelName, TrainSettings

MODELS: Mapping[ModelName, Callable[..., nn.Module]] = {
    ModelName.AMER: Amer,
    ModelName.TFN: Tfn,
    ModelName.EF_LSTM: EfLstm,
    ModelName.LF_LSTM: LfLstm,
}


def build(
    name: ModelName, widths: Mapping[str, int], out: int, settings: TrainSettings, steps: int = 0, traits: int = 0
) -> Any:
    """A model with new weights, drawn from torch's generator.

    Args:
        name: which.
        widths: columns of each modality that it is given.
        out: values that it gives of a window.
        settings: its sizes are among them.
        steps: of a window, which EF-LSTM's ``time_norm`` needs.
        traits: of personality, which AMER may be given.
    """
    sizes = getattr(settings, name.value)
    more = {"steps": steps} if getattr(sizes, "time_norm", False) else {}
    more |= {"traits": traits} if traits else {}
    if settings.missing == "mask" and name is not ModelName.EF_LSTM:  # whose zeros side by side add nothing as they are
        more["skips_missing"] = True
    return MODELS[name](widths, out, sizes, **more)
