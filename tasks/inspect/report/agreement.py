"""How far the raters of a study's labels agree, as rows of the study page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.inspect.formatting import counted
from tasks.statistics.agreement import Mean
from tasks.statistics.ratings import Level
from tasks.statistics.study_ratings import LeftOut, study_agreement
from tasks.study.labels import SchemeType
from tasks.study.load import Study

_METRIC = {SchemeType.NOMINAL: "nominal", SchemeType.ORDINAL: "ordinal", SchemeType.INTERVAL: "interval"}


@dataclass(frozen=True)
class AgreementRow:
    """One scheme that several raters used.

    Attributes:
        scheme: its name.
        raters, units: how many, and how many units two of them or more labelled.
        alpha: Krippendorff's over all raters, of the metric that the scheme's type says.
        kappa, pearson, spearman: means over the pairs of raters; of names there is kappa alone, of others the
            quadratic one.
        left_out: labels that are compared with none, and why.
    """

    scheme: str
    raters: int
    units: int
    alpha: str
    kappa: str
    pearson: str
    spearman: str
    left_out: str


def agreement_rows(study: Study) -> list[AgreementRow]:
    """A row for each scheme with two raters or more, those that are private left out."""
    rows = []
    for name, one in study_agreement(study).items():
        if one.agreement is None or one.private:
            continue
        metric = _METRIC[study.schemes[name].type]
        kappa = "kappa" if one.agreement.level is Level.NAMES else "kappa_quadratic"
        means = one.agreement.means
        rows.append(
            AgreementRow(
                scheme=name,
                raters=len(one.agreement.raters),
                units=one.agreement.units_compared,
                alpha=f"{_number(one.agreement.alpha[metric])} ({metric})",
                kappa=_mean(means.get(kappa)),
                pearson=_mean(means.get("pearson")),
                spearman=_mean(means.get("spearman")),
                left_out="; ".join(_left_out(one.left_out)),
            )
        )
    return rows


def _left_out(labels: LeftOut) -> Iterator[str]:
    if labels.overlapping:
        yield f"{counted(labels.overlapping, 'label')} overlapping another rater's without being the same"
    if labels.alone:
        yield f"{labels.alone} that nobody else gave"
    if labels.nameless:
        yield f"{labels.nameless} without a rater"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _mean(mean: Mean | None) -> str:
    """The mean over pairs, and for how many of them it is not defined; empty where the values do not allow it."""
    if mean is None:
        return ""
    without = f" (not of {counted(mean.undefined, 'pair')})" if mean.undefined else ""
    return _number(mean.mean) + without
