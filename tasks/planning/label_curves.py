"""Which features the study's curves are: of each scheme one, or one for each rater."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from storyframes.label_curves import NEAREST, CurveRule, of_scheme
from storyframes.tracks import MAIN
from tasks.extractors.base import Extractor
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.label_rules import LabelRule, curves_by_column
from tasks.study.labels import Scheme
from tasks.study.load import Study


@dataclass(frozen=True)
class CurvePaths:
    """The files of one curve of a session.

    Attributes:
        scheme: what its values are.
        rule: what they have between their moments.
        paths: in the study, in the order of the raters.
    """

    scheme: Scheme
    rule: CurveRule = NEAREST
    paths: tuple[str, ...] = ()


def curve_features(study: Study, rules: Mapping[str, LabelRule]) -> dict[str, Scheme]:
    """The features that the study's curves are, without the track in their names; private schemes are none."""
    return {
        of_scheme(column): study.schemes[name]
        for name in sorted({curve.scheme for curve in study.curves})
        if not study.schemes[name].private
        for column in curves_by_column(study, name, rules.get(name, LabelRule()))
    }


def curves_by_track(study: Study, rules: Mapping[str, LabelRule]) -> dict[tuple[str, str], dict[str, CurvePaths]]:
    """By session and the track whose times they are in, and by feature, the files of the study's curves."""
    found: dict[tuple[str, str], dict[str, CurvePaths]] = {}
    for name in sorted({curve.scheme for curve in study.curves}):
        scheme = study.schemes[name]
        if scheme.private:
            continue
        rule = rules.get(name, LabelRule())
        for column, curves in curves_by_column(study, name, rule).items():
            for curve in sorted(curves, key=lambda curve: curve.rater_id or ""):
                of_track = found.setdefault((curve.session_id, curve.track or MAIN), {})
                before = of_track.get(of_scheme(column), CurvePaths(scheme, rule.curve))
                of_track[of_scheme(column)] = replace(before, paths=(*before.paths, curve.path))
    return found


def curve_extractors(
    curves: Iterable[str], settings: ExtractorsSettings, session_id: str, only: tuple[str, ...] | None
) -> dict[str, Extractor]:
    """The extractors of these features of a session; where some are asked for by name, of those alone."""
    asked = [feature for feature in curves if only is None or feature in only]
    return {feature: build_extractor(settings, session_id, feature) for feature in asked}
