"""Names of speakers that are written into the text of captions.

Zoom, Otter and many editors write the speaker into the text: "Anna Kowalski: …", "[Anna] …", "(Anna) …", "Anna - …", or
the name on a line of its own. All of these are also part of what people say ("The point is: …"), so the whole file
decides: the beginning of a cue is its speaker where the same few names begin most cues, or take turns. A beginning that
may be a name but is not certain is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tasks.study.rows import is_no_name
from tasks.study.transcript_formats.non_speech import is_sound


class Form(StrEnum):
    """How a name is set apart from what is said."""

    COLON = "Anna: hello"
    BRACKETS = "[Anna] hello"
    PARENTHESES = "(Anna) hello"
    DASH = "Anna - hello"
    LINE = "Anna\nhello"


_MARK = r"(?:>>+\s*|[-–—]\s+)?"
_PATTERNS = {
    Form.COLON: re.compile(_MARK + r"((?![\[(（［【])[^:：!?;…\"“”<>|\n]{1,60}?)\s?(?::(?=\s|$)|：)\s*(.*)\n?"),
    Form.BRACKETS: re.compile(_MARK + r"[\[［【]\s*([^\[\]［］【】!?;…<>|\n]{1,60}?)\s*[\]］】]:?\s*(.*)\n?"),
    Form.PARENTHESES: re.compile(_MARK + r"[(（]\s*([^()（）!?;…<>|\n]{1,60}?)\s*[)）]:?\s*(.*)\n?"),
    Form.DASH: re.compile(_MARK + r"([^:：!?;…\"“”<>|\n–—]{1,60}?)\s+[-–—]\s+(.*)\n?"),
    Form.LINE: re.compile(_MARK + r"([^:：!?;…\"“”<>|\n,]{1,60}?)\s*()\n"),
}
_DASH = re.compile(r"\s[-–—]\s")
_MOST_WORDS = 8
_MOST_WORDS_OF_A_LINE = 4
_MOST_CUES = 0.8  # of the file's cues begin with a name: then each prefix is one
_SOME_CUES = 0.25  # where names are written only at a change of speaker
_CUES_PER_NAME = 1.5  # at least, on average
_UNUSUAL = 0.1  # of the cues: more prefixes that look like names are no accident
_IN_PARENTHESES = re.compile(r"\([^()]*\)")  # (she/her)
_SMALL_WORDS = {*"af al av bin da de del della den der di do dos du e el ibn la le ten ter und van von y zu".split()}
# What begins a sentence that breaks off: "I - I think", "Well - so".
_BEGINNINGS = {*"ah and but er he hm i it mm no now oh okay or she so the they this uh um we well yeah yes you".split()}


@dataclass(frozen=True)
class Prefixes:
    """The prefixes of a file's cues."""

    speakers: frozenset[str] = frozenset()  # the prefixes that are speakers
    uncertain: int = 0  # cues that may begin with a speaker's name, or that have no speaker where others do
    form: Form = Form.COLON  # of the prefixes

    def split(self, line: str) -> tuple[str, str]:
        """The line's speaker, empty where it has none, and the text without the speaker.

        Args:
            line: with a newline at its end where another line of the cue follows.
        """
        if self.speakers and (match := _match(line, self.form)) and match.group(1) in self.speakers:
            return match.group(1), match.group(2)
        return "", line.removesuffix("\n")


def find_prefixes(beginnings: Sequence[str], are_speakers: bool | None = None) -> Prefixes:
    """Which prefixes of a file's cues are speakers.

    Args:
        beginnings: the first line of each cue that has no voice span, with a newline at its end where others follow.
        are_speakers: True where prefixes are known to be speakers, False where none is; None decides by the file.

    Example:
        >>> zoom = find_prefixes(["Anna Kowalski: The point is: no.", "Ben: Why?", "Anna Kowalski: Because."])
        >>> sorted(zoom.speakers), zoom.uncertain
        (['Anna Kowalski', 'Ben'], 0)
        >>> zoom.split("Anna Kowalski: The point is: no.")
        ('Anna Kowalski', 'The point is: no.')
    """
    if are_speakers is False:
        return Prefixes()
    by_form = [_of_form(form, beginnings, are_speakers=bool(are_speakers)) for form in Form]
    if certain := [form for form in by_form if form[0].speakers]:
        return max(certain, key=lambda form: form[1])[0]
    return max((prefixes for prefixes, _ in by_form), key=lambda prefixes: prefixes.uncertain)


def _of_form(form: Form, beginnings: Sequence[str], *, are_speakers: bool) -> tuple[Prefixes, int]:
    """The prefixes of one form, and how many cues begin with one."""
    counts = Counter(match.group(1) for line in beginnings if (match := _match(line, form)))
    names = {prefix for prefix in counts if _looks_like_a_name(prefix)}
    repeated = {prefix for prefix, count in counts.items() if count > 1}
    turns = names & repeated
    is_mark = form in (Form.COLON, Form.BRACKETS, Form.PARENTHESES)  # what is said seldom begins so
    total, named = len(beginnings), sum(counts[prefix] for prefix in names)
    if are_speakers:
        speakers = names | repeated if is_mark else turns
        return Prefixes(frozenset(speakers), form=form), sum(counts[prefix] for prefix in speakers)
    most = names | repeated if is_mark else names
    for speakers, share, fewest in ((most, _MOST_CUES, 1), (turns, _SOME_CUES, 2)):
        covered = sum(counts[prefix] for prefix in speakers)
        if form in (Form.DASH, Form.LINE) and _BEGINNINGS.issuperset(prefix.casefold() for prefix in speakers):
            continue
        if len(speakers) >= fewest and covered >= max(_CUES_PER_NAME * len(speakers), share * total):
            return Prefixes(frozenset(speakers), total - covered, form), covered
    if form is Form.LINE:  # the first of two lines often looks like a name
        named = sum(counts[prefix] for prefix in turns)
    is_likely = named > _UNUSUAL * total
    if form is Form.COLON:
        is_likely |= bool(turns) or any(" " in name or is_no_name(name) for name in names)
    return Prefixes(uncertain=named if is_likely else 0), 0


def _match(line: str, form: Form) -> re.Match[str] | None:
    """The prefix and the rest of the line; None where the line has no prefix that could be a speaker."""
    match = _PATTERNS[form].fullmatch(line)
    if match is None or not any(map(str.isalpha, match.group(1))):
        return None
    if form in (Form.BRACKETS, Form.PARENTHESES) and is_sound(match.group(1)):
        return None
    if form is Form.COLON and _DASH.search(match.group(1)):
        return None  # "Anna - Note: ..."
    most = _MOST_WORDS_OF_A_LINE if form is Form.LINE else _MOST_WORDS
    return match if len(match.group(1).split()) <= most else None


def _looks_like_a_name(prefix: str) -> bool:
    """Whether each of its words begins like a name's; in scripts without capitals every word does."""
    if is_no_name(prefix):
        return True
    words = [word.strip(".,'’") for word in _IN_PARENTHESES.sub(" ", prefix).split()]
    first, *others = [word for word in words if word] or [""]
    return first[:1].isalpha() and not first[0].islower() and all(map(_may_be_of_a_name, others))


def _may_be_of_a_name(word: str) -> bool:
    return not word[0].islower() or word in _SMALL_WORDS
