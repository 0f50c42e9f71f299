"""A page of a study's report: how far the raters of its labels agree."""

from __future__ import annotations

from collections.abc import Iterator

from storyframes_empathy.statistics.agreement import Mean
from storyframes_empathy.statistics.ratings import Level
from storyframes_empathy.statistics.study_ratings import LeftOut, study_agreement
from storyframes_report import ReportContext, ReportPage, ReportTable
from tasks.inspect import counted
from tasks.study import SchemeType, Study

_METRIC = {SchemeType.NOMINAL: "nominal", SchemeType.ORDINAL: "ordinal", SchemeType.INTERVAL: "interval"}
_HEADINGS = (
    *("scheme", "raters", "units that two labelled", "Krippendorff's α", "ICC", "Cohen's κ", "Pearson", "Spearman"),
    "left out",
)
_ABOUT = (
    "α and ICC are over all raters. ICC is the reliability of one rating, and of the mean of k ratings; it is ICC(2) "
    "where every rater rated every unit, else ICC(1). κ (of numbers: of their floor, a disagreement counted by its "
    "square), Pearson and Spearman are means over the pairs of raters. A unit is the same session, track, person, "
    "target and part of the recording. 'storyframes empathy statistics agreement' has every pair."
)


def agreement_page(context: ReportContext) -> ReportPage | None:
    """A row for each scheme that several raters used; None where there is none."""
    rows = [] if context.study is None else agreement_rows(context.study)
    table = ReportTable("Schemes that several raters used", _HEADINGS, rows)
    return ReportPage("How far raters agree", [table, _ABOUT]) if rows else None


def agreement_rows(study: Study) -> list[tuple[object, ...]]:
    """A row for each scheme with two raters or more, those that are private left out; the cells are ``_HEADINGS``."""
    rows: list[tuple[object, ...]] = []
    for name, compared in study_agreement(study).items():
        agreement = compared.agreement
        if agreement is None or compared.private:
            continue
        metric = _METRIC[study.schemes[name].type]
        kappa = "kappa" if agreement.level is Level.NAMES else "kappa_quadratic"
        alpha = f"{_number(agreement.alpha[metric])} ({metric})"
        means = (_mean(agreement.means.get(mean)) for mean in (kappa, "pearson", "spearman"))
        icc = str(agreement.icc or "–") if metric == "interval" else ""
        left_out = "; ".join(_left_out(compared.left_out))
        rows.append((name, len(agreement.raters), agreement.units_compared, alpha, icc, *means, left_out))
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
