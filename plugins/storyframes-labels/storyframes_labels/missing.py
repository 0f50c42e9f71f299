"""Cells that may say that there is no value: the user says whether they do, and the scheme keeps the answer."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storyframes_labels.annotation_file import Annotation, ImportFaultError, listed
from tasks.study import Scheme, SchemeType, Study, Table

_NAMES = ("rater_id", "person_id", "confidence")


@dataclass(frozen=True)
class Answer:
    """What the user says of cells that look as if there were no value.

    Attributes:
        missing: those that say so.
        not_missing: those that are values.
    """

    missing: tuple[str, ...] = ()
    not_missing: tuple[str, ...] = ()

    @classmethod
    def parse(cls, missing: Iterable[str], not_missing: Iterable[str]) -> Answer:
        """The answer as ``--missing`` and ``--not-missing`` have it, each with commas between the codes.

        Raises:
            ImportFaultError: a code is in both.
        """
        answer = cls(_codes(missing), _codes(not_missing))
        if both := [code for code in answer.missing if Scheme.is_one_of(code, answer.not_missing)]:
            raise ImportFaultError(f"--missing and --not-missing both have {both[0]!r}: keep it in one of them")
        return answer


NO_ANSWER = Answer()


def _codes(texts: Iterable[str]) -> tuple[str, ...]:
    codes = [code.strip() for text in texts for code in text.split(",")]
    return tuple(dict.fromkeys(code for code in codes if code))


def _is_number(text: str) -> bool:
    return not math.isnan(Table.number_in(text))


class Missing:
    """The labels of an import without cells that say that there is no value.

    Attributes:
        schemes: by name, those of the import, with what is known of their codes now.
        remarks: how many were left out, and which answers are new.
    """

    def __init__(self, schemes: Mapping[str, Scheme], study: Study, answer: Answer) -> None:
        self.schemes = dict(schemes)
        self.remarks: list[str] = []
        self._study, self._answer = study, answer

    def left_out(
        self, chosen: Mapping[str, Sequence[Annotation]], scheme_of: Mapping[str, str]
    ) -> dict[str, list[Annotation]]:
        """The annotations by file without the missing ones; of a curve these stay, as gaps.

        Args:
            scheme_of: by tier.

        Raises:
            ImportFaultError: cells may be missing values, and neither the user nor their scheme says it.
        """
        values: dict[str, dict[str, list[str]]] = {name: {} for name in self.schemes}
        names: dict[str, list[str]] = {}
        for file, of_file in chosen.items():
            for annotation in of_file:
                place = f"{file}: {annotation.place}"
                values[scheme_of[annotation.tier]].setdefault(annotation.value, []).append(place)
                for field in _NAMES:
                    if text := getattr(annotation, field):
                        names.setdefault(text, []).append(place)
        self._learn(values, names)
        self._check(values, names)
        codes = (*self._answer.missing, *(code for scheme in self.schemes.values() for code in scheme.missing))
        nobody = tuple(code for code in codes if not Scheme.is_one_of(code, self._answer.not_missing))
        missing = {
            name: {text for text in texts if Scheme.is_one_of(text, self.schemes[name].missing)}
            for name, texts in values.items()
        }
        for name, texts in missing.items():
            if count := sum(len(values[name][text]) for text in texts):
                self.remarks.append(f"{name}: {listed(sorted(texts))} in {count} places: missing, left out")
        doubtful = Scheme.possibly_missing(names)
        unnamed = {  # a rater 9 is one, though 9 is no value
            text for text in names if Scheme.is_one_of(text, nobody) and (text in doubtful or not _is_number(text))
        }
        kept: dict[str, list[Annotation]] = {}
        for file, of_file in chosen.items():
            kept[file] = []
            for annotation in of_file:
                name = scheme_of[annotation.tier]
                if annotation.value in missing[name]:
                    if self.schemes[name].type is not SchemeType.CURVE:
                        continue
                    annotation = replace(annotation, value="")
                empty: dict[str, Any] = {field: None for field in _NAMES if getattr(annotation, field) in unnamed}
                kept[file].append(replace(annotation, **empty))
        return kept

    def _learn(self, values: Mapping[str, Mapping[str, object]], names: Iterable[str]) -> None:
        """Add the user's answers to the schemes that have such cells; those of names alone to all schemes."""
        others = [text for text in names if not any(Scheme.is_one_of(text, [*texts]) for texts in values.values())]
        for name, texts in values.items():
            scheme, cells = self.schemes[name], [*texts, *others]
            for kind, opposite in (("missing", "not_missing"), ("not_missing", "missing")):
                answers = getattr(self._answer, kind)
                said = [code for code in answers if any(Scheme.is_one_of(text, [code]) for text in cells)]
                if wrong := [code for code in said if Scheme.is_one_of(code, getattr(scheme, opposite))]:
                    option = kind.replace("_", "-")
                    raise ImportFaultError(
                        f"--{option} {wrong[0]}: the table schemes has it as {opposite} of {name}: change it there"
                    )
                new = [code for code in said if not Scheme.is_one_of(code, getattr(scheme, kind))]
                learned: dict[str, Any] = {kind: (*getattr(scheme, kind), *new)}
                scheme = replace(scheme, **learned)
            self.schemes[name] = scheme

    def _check(self, values: Mapping[str, Mapping[str, list[str]]], names: Mapping[str, list[str]]) -> None:
        found: list[tuple[str, str, list[str]]] = []
        for name, texts in values.items():
            found += [(name, code, texts[code]) for code in self.schemes[name].undecided(texts)]
        known = {person.person_id for person in self._study.persons}
        if self._study.table_path("raters").is_file():
            known |= {*self._study.raters}
        known |= {*self._answer.missing, *self._answer.not_missing}
        known |= {code for scheme in self.schemes.values() for code in (*scheme.missing, *scheme.not_missing)}
        undecided = [text for text in Scheme.possibly_missing(names) if not Scheme.is_one_of(text, known)]
        found += [("a rater, a person or a confidence", code, names[code]) for code in undecided]
        if found:
            cells = "; ".join(f"{code!r} as {what} ({len(at)}, first {at[0]})" for what, code, at in found)
            codes = shlex.quote(",".join(dict.fromkeys(code for _, code, _ in found)))
            raise ImportFaultError(
                f"{cells}: may say that there is no value. Say --missing {codes} if so, or --not-missing {codes} if "
                "these are values; the table schemes keeps the answer"
            )
