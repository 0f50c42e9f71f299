"""What a printed row gives away: if its r is a correlation of yes and no, how many of the labels were yes.

The accuracy and F1 of a table of four fix its rightly positive and rightly negative; only how its errors are shared out
between wrongly positive and wrongly negative is open, and phi fixes their product. So a row has two solutions, each the
other's mirror: in one the prevalence is what in the other is the share of positive predictions. Or it has none, and
then its r is no phi.
"""

from __future__ import annotations

import math


def implied_prevalence(phi: float, acc: float, f1: float) -> tuple[float, ...]:
    """The shares of positive labels with which a table of four has these, the larger first; none where there is none.

    Args:
        phi: the correlation of prediction and label, both yes or no.
        acc: the share of predictions that are right.
        f1: of the positive.
    """
    tp, tn, errors = _fixed_by(acc, f1)
    if not (tp >= 0 and tn >= 0):
        return ()
    a, b = tp * (tp + errors), tn * (tn + errors)
    # phi = (tp tn - d) / sqrt((a + d) (b + d)) falls as d = fp fn grows; squared, it is a quadratic in d
    square = 1 - phi**2
    half = tp * tn + phi**2 * (a + b) / 2
    inside = half**2 - square * ((tp * tn) ** 2 - phi**2 * a * b)
    if inside < 0 or square <= 0:
        return ()
    for d in ((half - math.sqrt(inside)) / square, (half + math.sqrt(inside)) / square):
        apart = errors**2 - 4 * d
        if d >= 0 and apart >= 0 and (tp * tn - d) * phi >= 0:
            fn = (errors + math.sqrt(apart)) / 2, (errors - math.sqrt(apart)) / 2
            return tp + fn[0], tp + fn[1]
    return ()


def possible_phi(acc: float, f1: float) -> tuple[float, float]:
    """The smallest and the largest phi that a table of four with this accuracy and F1 can have; NaN where none is."""
    tp, tn, errors = _fixed_by(acc, f1)
    if not (tp >= 0 and tn >= 0):
        return math.nan, math.nan

    def phi(product: float) -> float:
        sides = (tp * (tp + errors) + product) * (tn * (tn + errors) + product)
        return (tp * tn - product) / math.sqrt(sides) if sides else math.nan

    return phi(errors**2 / 4), phi(0)  # errors shared out evenly, and all of one kind


def possible_prevalence(acc: float, f1: float) -> tuple[float, float]:
    """The smallest and the largest share of positive labels that this accuracy and F1 allow, whatever phi is."""
    tp, _, errors = _fixed_by(acc, f1)
    return tp, tp + errors


def _fixed_by(acc: float, f1: float) -> tuple[float, float, float]:
    """The shares of rightly positive, of rightly negative and of errors."""
    errors = 1 - acc
    tp = f1 * errors / (2 * (1 - f1)) if f1 < 1 else math.nan
    return tp, acc - tp, errors
