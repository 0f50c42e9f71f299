"""The forms under which a transcript's word is looked up among word vectors; docs/study.md gives the rule.

GloVe's 840B vectors were trained on text that Stanford's tokenizer had split: ``20 %``, ``$ 20``, ``do n't``, ``U.S.``,
``well-known``. A transcript's words are split at spaces only, so what is not in the vocabulary as a whole is split in
that way here.
"""

from __future__ import annotations

import re

_PLAIN = str.maketrans(dict.fromkeys("’‘ʼ`´", "'") | dict.fromkeys("“”„«»", '"') | {"‑": "-"})
_EDGES = "\"'()[]{}<>.,;:!?…–—-*_/\\"
_TOKEN = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+\.?"  # U.S., e.g.
    r"|\d+(?:[.,:/]\d+)*\w*"  # 3.5, 1,000, 10:30, 1/2, 20th
    r"|\w+(?:[-'.&/@]\w+)*"  # well-known, don't, AT&T, and/or
    r"|[^\w\s]"
)
_CONTRACTION = re.compile(r"(.+?)(n't|'(?:s|m|d|re|ve|ll))", re.IGNORECASE)
_TWO_WORDS = ("cannot", "gonna", "gotta", "wanna", "gimme", "lemme")  # three letters and the rest


def whole_forms(word: str) -> list[str]:
    """The forms of ``word`` as one token, the most literal first: as written, without what surrounds it, lower case."""
    plain = word.translate(_PLAIN)
    bare = plain.strip(_EDGES)
    ends_with_stop = plain.rstrip(_EDGES.replace(".", "")).endswith(".")
    with_stop = f"{bare}." if ends_with_stop else bare  # an abbreviation's own: the vocabulary tells
    derived = (plain, with_stop, bare, with_stop.lower(), bare.lower())
    return list(dict.fromkeys([word, *(form for form in derived if bare)]))


def split_forms(word: str) -> list[str]:
    """The tokens that Stanford's tokenizer would make of ``word``, without its punctuation; symbols (% $) stay."""
    found = [token for token in _TOKEN.findall(word.translate(_PLAIN)) if token not in _EDGES]
    return [part for token in found for part in _parts(token)]


def _parts(token: str) -> list[str]:
    if contraction := _CONTRACTION.fullmatch(token):
        return [*_parts(contraction.group(1)), contraction.group(2)]
    if token.lower() in _TWO_WORDS:
        return [token[:3], token[3:]]
    return [token]


def is_symbol(token: str) -> bool:
    """Whether it has neither letter nor digit."""
    return not any(character.isalnum() for character in token)
