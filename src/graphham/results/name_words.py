"""The words that may name groups: of features, of titles, and of ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from graphham.graph.ids import NodeIds

_TITLE_ROWS = 200_000
_LONGEST = 32
_WORD = re.compile(r"[^\W_][\w+#]*(?:[-.'][\w+#]+)*")
_NUMBERED = re.compile(r"(w|f|x|v|word|feat|feature|dim|col|column)?[\s_:-]*\d+", re.IGNORECASE)
_STOPS = (
    "a about an and are as at be but by can for from has have in into is it its not of on or "
    "other such that the their this to use used uses using via was which with you your"
)
_STOP_WORDS = frozenset(_STOPS.split())


@dataclass(frozen=True)
class Terms:
    """Words that nodes have, counted per group.

    Args:
        words: What to call each column; an empty text is no word.
        counts: Per level ``(num_groups, num_terms)`` members that have the term.
        overall: ``(num_terms,)`` nodes that have it.
        num_nodes: Nodes that were looked at.
        sizes: Per level ``(num_groups,)`` members that were looked at.
    """

    words: tuple[str, ...]
    counts: Sequence[sp.csr_matrix]
    overall: npt.NDArray[np.float64]
    num_nodes: int
    sizes: Sequence[npt.NDArray[np.int64]]


def title_terms(
    titles: Sequence[str],
    groups: Sequence[npt.NDArray[Any]],
    group_counts: Sequence[int],
    with_words: bool,
    with_bigrams: bool = True,
) -> Terms:
    """Count the bigrams of titles, and their words where features have none to offer.

    Args:
        titles: One title per node; very many are looked at by a sample.
        groups: Per level the group of each node.
        group_counts: Number of groups of each level.
        with_words: Whether single words count too.
        with_bigrams: Whether pairs of neighbouring words count.
    """
    rows = np.arange(0, len(titles), max(1, -(-len(titles) // _TITLE_ROWS)))
    known: dict[str, int] = {}
    shown: list[str] = []
    columns: list[int] = []
    bounds = [0]
    for row in rows.tolist():
        own = set()
        for text in _title_words(str(titles[row]), with_words, with_bigrams):
            code = known.setdefault(text.casefold(), len(known))
            if code == len(shown):
                shown.append(text)
            own.add(code)
        columns += sorted(own)
        bounds.append(len(columns))
    seen = np.bincount(np.array(columns, dtype=np.int64), minlength=len(shown))
    # What three titles share may be chance; most bigrams occur once.
    frequent = np.flatnonzero(seen >= 3)
    has = sp.csr_matrix(
        (np.ones(len(columns), np.float32), np.array(columns, dtype=np.int64), bounds),
        shape=(len(rows), len(shown)),
    )[:, frequent]
    pairs = list(zip(groups, group_counts, strict=True))
    return Terms(
        words=tuple(clean(shown[i]) for i in frequent.tolist()),
        counts=[sp.csr_matrix(member_matrix(codes[rows], k) @ has) for codes, k in pairs],
        overall=seen[frequent].astype(np.float64),
        num_nodes=len(rows),
        sizes=[np.bincount(codes[rows], minlength=k) for codes, k in pairs],
    )


def member_matrix(codes: npt.NDArray[Any], num_groups: int) -> sp.csr_matrix:
    """Return the ``(num_groups, num_nodes)`` matrix that sums node rows by group."""
    order = np.argsort(codes, kind="stable").astype(np.int32)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=num_groups))])
    ones = np.ones(len(codes), dtype=np.float32)
    return sp.csr_matrix((ones, order, bounds), shape=(num_groups, len(codes)))


def feature_word(feature: str) -> str:
    """Return the word people say for a feature; numbered features have none.

    Tags lose their facet: ``devel::lang:perl`` names facet, kind and value, and the value is said.
    """
    tail = re.split(r"(?<=\w):+(?=\w)", feature)[-1]
    is_word = not _NUMBERED.fullmatch(tail.strip()) and tail.casefold() not in _STOP_WORDS
    return clean(tail) if is_word else ""


def clean(text: str) -> str:
    """Make user text fit a one-line name: no control characters, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"


class IdTexts(Sequence[str]):
    """Text ids as titles: ``results/names.py`` and ``sales-07`` fall into words.

    Args:
        ids: The ids, read one at a time.
    """

    def __init__(self, ids: NodeIds) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, row: Any) -> Any:
        return re.sub(r"[\W_]+", " ", str(self._ids[row])[:200])


def _title_words(title: str, with_words: bool, with_bigrams: bool = True) -> list[str]:
    """Return the bigrams and words of a title, whichever are wanted."""
    found: list[str] = []
    # Words with a sign between them, such as a comma or a bracket, are no bigram.
    for phrase in re.split(r"[^\w\s+#.'-]|\s[-.]\s|\.\s", title[:500]):
        words = _WORD.findall(phrase)
        if with_words:
            found += [
                w
                for w in words
                if len(w) > 1 and w.casefold() not in _STOP_WORDS and not _NUMBERED.fullmatch(w)
            ]
        found += [
            f"{a} {b}"
            for a, b in pairwise(words if with_bigrams else ())
            if not {a.casefold(), b.casefold()} & _STOP_WORDS and not (a + b)[0].isdigit()
        ]
    return found
