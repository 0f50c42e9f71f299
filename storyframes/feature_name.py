"""The name of a feature in a store: what it says of the feature, and how it is made."""

from __future__ import annotations

from collections.abc import Iterable

from storyframes import spec
from storyframes.spec import FeatureSpec


class FeatureName(str):
    """The name of a feature in a store, a text as any other.

    Example:
        >>> name = FeatureName("openface@child_b")
        >>> name.feature, name.track, name == FeatureName.of_track("openface", "child_b")
        ('openface', 'child_b', True)
    """

    __slots__ = ()

    @staticmethod
    def of_track(feature: str, track: str) -> str:
        """The name of a feature of a track; ``main`` is the session itself."""
        return spec.of_track(feature, track)

    @staticmethod
    def of_scheme(scheme: str) -> str:
        """The feature of a scheme's curves."""
        return spec.of_scheme(scheme)

    @staticmethod
    def in_order(names: Iterable[str]) -> list[str]:
        """Names in the order for display: built-in features first, and the sessions' own before those of tracks."""
        from storyframes.features import in_order  # its specifications need numpy, which takes long to import

        return in_order(names)

    @property
    def feature(self) -> str:
        """The feature, without the track."""
        return spec.feature_and_track(self)[0]

    @property
    def track(self) -> str:
        """The track; ``main`` for the session itself."""
        return spec.feature_and_track(self)[1]

    @property
    def is_allowed(self) -> bool:
        """Whether a feature may have this name: it has the form of one and no other meaning."""
        return spec.may_be_called(self)

    @property
    def is_label_curve(self) -> bool:
        """Whether it is a curve of labels; for a name without a track."""
        return spec.is_label_curve(self)

    @property
    def clip_column(self) -> str:
        """The column of the clip index that says whether a session has the feature."""
        return spec.column_of(self)

    def built_in(self, *, of_stories: bool = False) -> FeatureSpec | None:
        """Its specification where it is a curve of labels or built in, else None; for a name without a track.

        Args:
            of_stories: of the story texts, not of a session.
        """
        from storyframes.features import FEATURES, STORY_FEATURES
        from storyframes.label_curves import curve_spec

        if self.is_label_curve:
            return curve_spec(self)
        return (STORY_FEATURES if of_stories else FEATURES).get(self)

    def unit_of(self, column: str) -> str:
        """The unit of a column of OpenFace, whose columns have several; "" for other features."""
        from storyframes.features import column_unit

        return column_unit(self, column)
