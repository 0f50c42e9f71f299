"""The scores of a model's trained head as columns: how they are called, and what becomes of the head's numbers.

Planning reads this, so no library of models is imported, but of timm's and torchvision's models that do not have
their labels in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import Activation, EmbedSettings, Kind, Origin
from tasks.models.libraries import import_torchvision

CLASSIFIERS: Mapping[Kind, str] = {
    Kind.IMAGE: "AutoModelForImageClassification",
    Kind.AUDIO: "AutoModelForAudioClassification",
    Kind.VIDEO: "AutoModelForVideoClassification",
    Kind.TEXT: "AutoModelForSequenceClassification",
}
"""What loads a model of transformers with its head."""

_BY_PROBLEM = {
    "regression": Activation.NONE,
    "multi_label_classification": Activation.SIGMOID,
    "single_label_classification": Activation.SOFTMAX,
}
UNITS = {Activation.SOFTMAX: "0 to 1, all labels add up to 1", Activation.SIGMOID: "0 to 1", Activation.NONE: ""}


@dataclass(frozen=True)
class Head:
    """The classifier or regression at a model's end.

    Attributes:
        labels: a column for each of its numbers, in their order.
        activation: what becomes of these numbers.
    """

    labels: tuple[str, ...]
    activation: Activation


def head_of(model: LocalModel, settings: EmbedSettings) -> Head:
    """The head of a section's model, by its configuration.

    Raises:
        ExtractionError: its labels are unknown, or what its numbers mean is not said.
    """
    labels = _labels(model, settings.label)
    problem = model.config.get("problem_type")
    if settings.activation is not None:
        return Head(labels, settings.activation)
    if problem not in (None, *_BY_PROBLEM):
        raise ExtractionError(
            f"{settings.label}: problem_type = {problem!r} in config.json is unknown: set activation to "
            f"{', '.join(map(repr, map(str, Activation)))}"
        )
    if problem is None and len(labels) == 1:
        raise ExtractionError(
            f"{settings.label} has one label ({labels[0]!r}), and its config.json has no problem_type: set activation "
            "= 'none' (a regression) or 'sigmoid' (a probability)"
        )
    return Head(labels, _BY_PROBLEM.get(str(problem), Activation.SOFTMAX))


def _labels(model: LocalModel, where: str) -> tuple[str, ...]:
    if model.origin is Origin.TORCHVISION:
        published = import_torchvision().models.get_model_weights(model.name)
        return _distinct(published[model.revision].meta["categories"])
    if model.is_timms:
        return _labels_of_timm(model.config, where)
    by_number = model.config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})  # what transformers leaves out
    try:
        labels = {int(number): str(label) for number, label in by_number.items()}
    except (AttributeError, ValueError):
        labels = {}
    if not labels or sorted(labels) != list(range(len(labels))):
        raise ExtractionError(f"{where}: id2label in config.json does not name the labels 0, 1, …")
    return _distinct([labels[number] for number in range(len(labels))])


def _labels_of_timm(config: Mapping[str, Any], where: str) -> tuple[str, ...]:
    published = config.get("pretrained_cfg", {})
    count = config.get("num_classes", published.get("num_classes"))
    if not isinstance(count, int) or not count:
        raise ExtractionError(f"{where} has no classifier (num_classes = {count!r} in config.json): no scores")
    named = config.get("label_names", published.get("label_names"))
    if isinstance(named, dict):
        named = [named.get(str(number)) for number in range(count)] if len(named) == count else list(named)
    if named:
        if not isinstance(named, list) or len(named) != count or None in named:
            raise ExtractionError(f"{where}: label_names in config.json does not name its {count} labels 0, 1, …")
        return _distinct(list(map(str, named)))
    import_torchvision()
    from timm.data import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset({"num_classes": count})
    if not subset:
        raise ExtractionError(f"{where}: config.json names none of its {count} labels (label_names)")
    info = ImageNetInfo(subset)
    return _distinct([info.index_to_description(number).partition(",")[0] for number in range(count)])


def _distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """Names of columns: printable, and with its number where two are called alike or one has no name."""
    names = [" ".join(label.split()) for label in labels]
    names = [name if name.isprintable() else "" for name in names]
    numbered = [f"{name}_{number}".lstrip("_") for number, name in enumerate(names)]
    distinct = [name if name and names.count(name) == 1 else numbered[n] for n, name in enumerate(names)]
    return tuple(distinct if len(set(distinct)) == len(distinct) else numbered)
