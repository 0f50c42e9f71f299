"""Labels, raters and people that differ in case or Unicode form alone: named, or joined where the user says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from storyframes_labels.annotation_file import Annotation
from tasks.study import Scheme, SchemeType, Study

_OF_PEOPLE = {"rater_id": "raters", "person_id": "persons"}


class Spellings:
    """One spelling for each label, rater and person of an import.

    It is that of the scheme's labels, else the study's own, else the one that the files have most often.

    Attributes:
        remarks: what was joined, or would be.
    """

    def __init__(self, schemes: Mapping[str, Scheme], study: Study, *, join: bool) -> None:
        self.remarks: list[str] = []
        self._schemes, self._study, self._join = schemes, study, join

    def joined(
        self, chosen: Mapping[str, Sequence[Annotation]], scheme_of: Mapping[str, str]
    ) -> dict[str, list[Annotation]]:
        """The annotations by file, with ``join`` in these spellings.

        Args:
            scheme_of: by tier.
        """
        everything = [annotation for of_file in chosen.values() for annotation in of_file]
        spelled: dict[str, dict[str, str]] = {}  # by scheme, or by the field of raters or people
        for name, scheme in self._schemes.items():
            if scheme.is_numeric or scheme.type is SchemeType.TEXT:
                continue
            values = [one.value for one in everything if scheme_of[one.tier] == name]
            own = [str(label.value) for label in self._study.labels if label.scheme == name]
            known = (*scheme.labels, *own)
            spelled[f"scheme {name}"] = self._spelled(f"labels of {name}", values, known, is_shown=not scheme.private)
        people = {"rater_id": [*self._study.raters], "person_id": [each.person_id for each in self._study.persons]}
        for field, what in _OF_PEOPLE.items():
            names = [text for annotation in everything if (text := getattr(annotation, field))]
            spelled[field] = self._spelled(what, names, people[field])
        if not self._join:
            return {file: list(of_file) for file, of_file in chosen.items()}
        return {
            file: [self._as_spelled(annotation, spelled, scheme_of[annotation.tier]) for annotation in of_file]
            for file, of_file in chosen.items()
        }

    def _spelled(
        self, what: str, texts: Iterable[str], known: Iterable[str], *, is_shown: bool = True
    ) -> dict[str, str]:
        """By text of a group that is alike the spelling of all of it."""
        counts = Counter(texts)
        known = dict.fromkeys(known)
        spelled: dict[str, str] = {}
        for group in Scheme.alike([*known, *counts]):
            first = next((text for text in group if text in known), max(group, key=lambda text: counts[text]))
            if new := [text for text in group if text in counts]:
                shown = f": {', '.join(map(repr, group))}" if is_shown else ""
                does = f"joined as {first!r}" if is_shown else "joined"
                end = does if self._join else "--fold-case joins them"
                self.remarks.append(f"{what} differ in case or Unicode form alone{shown}: {end}")
                spelled |= dict.fromkeys(new, first)
        return spelled

    def _as_spelled(self, annotation: Annotation, spelled: Mapping[str, Mapping[str, str]], scheme: str) -> Annotation:
        value = spelled.get(f"scheme {scheme}", {}).get(annotation.value, annotation.value)
        people = {field: spelled[field].get(text, text) for field in _OF_PEOPLE if (text := getattr(annotation, field))}
        return replace(annotation, value=value, **people)
