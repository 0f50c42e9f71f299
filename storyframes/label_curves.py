"""Curves as features: the label of a scheme that changes all the time is the feature ``label.<scheme>``.

No other feature has a dot in its name, so a curve's can be nobody else's. It has a time axis of its own: a row is a
moment, and ``time`` says which.
"""

from __future__ import annotations

from storyframes.spec import LABEL_PATTERN, ArraySpec, Axis, FeatureSpec

PREFIX = "label."
MOST_CHARACTERS = 64 - len(PREFIX)
"""A scheme's name may be so long: the feature's is a folder of the store."""


def of_scheme(scheme: str) -> str:
    """The feature that a scheme's curves are.

    Example:
        >>> of_scheme("valence")
        'label.valence'
    """
    return f"{PREFIX}{scheme}"


def is_label_curve(feature: str) -> bool:
    """Whether a feature, without the track in its name, is a curve."""
    return LABEL_PATTERN.fullmatch(feature) is not None


def column_of(feature: str) -> str:
    """The column of the clip index that says whether a session has the feature: a name that a filter can hold.

    Example:
        >>> column_of("openface"), column_of("label.valence")
        ('has_openface', 'has_label_valence')
    """
    return f"has_{feature.replace('.', '_')}" if is_label_curve(feature) else f"has_{feature}"


def curve_spec(feature: str) -> FeatureSpec:
    """What the feature of a curve is."""
    scheme = feature.removeprefix(PREFIX)
    return FeatureSpec(
        feature,
        f"the label {scheme!r} at every moment, as the study's curves have it",
        {
            "values": ArraySpec(
                Axis.MOMENT,
                "float32",
                "in the scheme's own numbers (minimum and maximum, where it has them, are attributes of the group): of "
                "one rater as the file has it; of several the mean of those who have a value at this moment, each on "
                "the line between its two neighbouring moments. NaN where nobody has one",
            ),
            "time": ArraySpec(Axis.MOMENT, "float64", "when the moment is, on the recording's clock", units="s"),
            "raters": ArraySpec(Axis.MOMENT, "int16", "how many raters have a value at this moment", fill=0),
        },
    )
