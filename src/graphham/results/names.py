"""Name groups so that siblings differ: words that set a group apart, then its typical nodes.

Names are given from the top down. The words of a group are weighed by class-based TF-IDF with its
siblings as the other classes (all other groups at the top): the share of members that have the
word, times the logarithm of how much more often they have it than the siblings. Words of the
parent's name are left to the parent. Where no word is left, typical nodes name the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.results.hierarchy import Hierarchy, group_number
from graphham.results.name_words import Terms, clean, member_matrix

if TYPE_CHECKING:
    import pyarrow as pa

# Pseudo-members at the rate of all: a word of two members in a group of two is no profile.
_PRIOR_MEMBERS = 5.0
_NAME_PARTS = 3
_CANDIDATES = 24
# A word with less than this share of the best word's weight says little.
_STRONG = 0.2
_FAINT = 0.05
# A bigram stands for its words where this share of those who have the word have both.
_BIGRAM_SHARE = 0.4
_EVERYTHING = "all nodes"


@dataclass(frozen=True)
class GroupFacts:
    """What a namer is told about one group.

    Args:
        level: Level of the group, 1 being the finest.
        group: Its number on that level.
        size: Number of members.
        parent_name: The name its parent was given, ``None`` on the top level.
        features: Words that set it apart from its siblings, the strongest first.
        nodes: Ids of its most typical nodes.
        titles: Their titles, where the graph has titles.
        suggestion: The name it gets if the namer returns nothing.
    """

    level: int
    group: int
    size: int
    parent_name: str | None
    features: tuple[str, ...]
    nodes: tuple[Any, ...]
    titles: tuple[str, ...]
    suggestion: str


Names = dict[tuple[int, int], str]
Namer = Callable[[GroupFacts], str | None]
"""A function from what is known of a group to its name; called once per group, parents first."""


@dataclass
class _Given:
    """Names given so far, by level and group; the parts they were made of; the nodes in them."""

    of: dict[tuple[int, int], str] = field(default_factory=dict)
    parts: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    nodes: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)


def name_tree(
    tree: Hierarchy,
    terms: Sequence[Terms],
    nodes: Sequence[Sequence[Sequence[Any]]],
    titles: Sequence[Sequence[Sequence[str]]] | None = None,
    labels: Sequence[Sequence[str]] | None = None,
    namer: Namer | None = None,
    kept: Mapping[tuple[int, int], str] | None = None,
) -> list[list[str]]:
    """Name every group; no two groups of the tree have the same name.

    Args:
        tree: The groups.
        terms: Words to name them by, all kinds alike.
        nodes: Per level and group the ids of its typical nodes.
        titles: Their titles, where there are any.
        labels: Per level and group the name made of labels, or an empty text; names that come from
            labels say so.
        namer: The user's own function; what it returns is the name.
        kept: Names that stay, by level and group; the namer is not asked about them.

    Returns:
        Per level, fine first, one name per group.
    """
    given, kept = _Given(), kept or {}
    for level in range(tree.num_levels, 0, -1):
        ranked = [_contrasts(tree, level, of) for of in terms]
        for family in _families(tree, level):
            for group in family:
                key, above = (level, group), _above(tree, level, group)
                words = _merged([of[group] for of in ranked])
                own = _words_apart(words, given.parts[above] if above else ())
                typical = nodes[level - 1][group]
                shown = titles[level - 1][group] if titles is not None else ()
                used = given.nodes[above] if above else set()
                like, given.nodes[key] = _like(typical, shown, used)
                label = labels[level - 1][group] if labels is not None else ""
                near = [above, *((level, other) for other in family)]
                beside = [given.parts[k] for k in near if k in given.parts]
                parts = _first_parts(own, label, like, beside)
                if above is None and tree.sizes[level - 1][group] == tree.num_nodes:
                    parts = [_EVERYTHING]  # nothing sets it apart
                given.parts[key] = parts or [group_number(level, group)]
                name = kept.get(key)
                if name is None:
                    facts = GroupFacts(
                        level=level,
                        group=group,
                        size=int(tree.sizes[level - 1][group]),
                        parent_name=given.of[above] if above else None,
                        features=tuple(word for word, _ in words),
                        nodes=tuple(typical),
                        titles=tuple(shown),
                        suggestion=_free_name(key, above, like, given),
                    )
                    name = _asked(namer, facts, given) if facts.size else facts.suggestion
                given.of[key] = name
                given.taken.add(name)
    return [
        [given.of[level, group] for group in range(count)]
        for level, count in enumerate(tree.group_counts, 1)
    ]


def label_name(values: Iterable[Any]) -> str:
    """Return a name made of labels, marked as such."""
    words = [word for word in (clean(str(value)) for value in values) if word]
    return f"{' / '.join(words)} [label]" if words else ""


def names_of(table: pa.Table) -> Names:
    """Return the names in a table of groups, by level and group."""
    keys = zip(table["level"].to_pylist(), table["group"].to_pylist(), strict=True)
    return dict(zip(keys, table["name"].to_pylist(), strict=True))


def renamed_table(table: pa.Table, names: Mapping[tuple[int, int], str]) -> pa.Table:
    """Return a table of groups under other names; groups that are not listed keep theirs."""
    if not names:
        return table
    import pyarrow as pa

    shown = [names.get(key, name) for key, name in names_of(table).items()]
    place = table.column_names.index("name")
    return table.set_column(place, "name", pa.array(shown, type=pa.string()))


def _families(tree: Hierarchy, level: int) -> list[list[int]]:
    """Return the groups of a level by parent, large ones first: they choose their words first."""
    parent = _parents(tree, level)
    sizes = tree.sizes[level - 1]
    found: dict[int, list[int]] = {}
    for group in np.argsort(-sizes, kind="stable").tolist():
        found.setdefault(int(parent[group]), []).append(group)
    return list(found.values())


def _parents(tree: Hierarchy, level: int) -> npt.NDArray[Any]:
    if level == tree.num_levels:
        return np.zeros(tree.group_counts[-1], dtype=np.int32)
    return tree.parents[level - 1]


def _above(tree: Hierarchy, level: int, group: int) -> tuple[int, int] | None:
    return None if level == tree.num_levels else (level + 1, int(tree.parents[level - 1][group]))


def _contrasts(tree: Hierarchy, level: int, terms: Terms) -> list[list[tuple[str, float, float]]]:
    """Rank the words of each group by how they set it apart: word, weight and share of members."""
    counts, sizes = terms.counts[level - 1], terms.sizes[level - 1].astype(np.float64)
    parent = _parents(tree, level)
    together = sp.csr_matrix(member_matrix(parent, int(parent.max(initial=0)) + 1) @ counts)
    members = np.bincount(parent, weights=sizes, minlength=together.shape[0])
    found: list[list[tuple[str, float, float]]] = []
    for group, size in enumerate(sizes.tolist()):
        part = slice(counts.indptr[group], counts.indptr[group + 1])
        columns, having = counts.indices[part], counts.data[part].astype(np.float64)
        base = terms.overall[columns] / max(terms.num_nodes, 1)
        family = int(parent[group])
        others, rest = members[family] - size, together[family].toarray().ravel()[columns] - having
        if others <= 0:  # an only child: what sets it apart is what sets its parent apart
            others, rest = terms.num_nodes - size, terms.overall[columns] - having
        weight = size + _PRIOR_MEMBERS
        rate = (having + _PRIOR_MEMBERS * base) / weight
        # One standard error down: rare words that happen to meet in a group must not win.
        sure = rate - np.sqrt(np.maximum(rate * (1 - rate), 0) / weight)
        theirs = (np.maximum(rest, 0) + _PRIOR_MEMBERS * base) / (others + _PRIOR_MEMBERS)
        keep = np.flatnonzero((having >= min(2, size)) & (sure > theirs))
        score = sure[keep] * np.log(sure[keep] / theirs[keep])
        order = np.lexsort((columns[keep], -score))
        best: list[tuple[str, float, float]] = []
        for place in order.tolist():
            word = terms.words[columns[keep[place]]]
            if word:
                share = float(having[keep[place]] / size)
                best.append((word, float(score[place]), share))
                if len(best) == _CANDIDATES:
                    break
        found.append(best)
    return found


def _merged(ranked: Sequence[Sequence[tuple[str, float, float]]]) -> list[tuple[str, float]]:
    """Join several rankings; a bigram takes the place of its words, and nothing is said twice."""
    every = sorted((found for of in ranked for found in of), key=lambda found: -found[1])
    pairs = [found for found in every if " " in found[0]]
    words: list[tuple[str, float]] = []
    for word, score, share in every:
        shown = word
        if " " not in word:
            holding = [
                pair
                for pair, _, both in pairs
                if word.casefold() in pair.casefold().split() and both >= _BIGRAM_SHARE * share
            ]
            shown = holding[0] if holding else word
        # "python" and "python3" say the same thing twice.
        if not any(_same(shown, other) for other, _ in words):
            words.append((shown, score))
    return words


def _same(one: str, other: str) -> bool:
    a, b = one.casefold(), other.casefold()
    if a.startswith(b) or b.startswith(a):
        return True
    # Of two bigrams with a word in common, or a bigram and its word, one is enough.
    return (" " in a or " " in b) and bool(set(a.split()) & set(b.split()))


def _words_apart(
    words: Sequence[tuple[str, float]], above: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the words that say much about a group, and those to fall back on.

    Words that the parent's name lacks come first. A word of the parent's name may still be what
    tells the children apart, as where the parent is called after both of them.
    """
    news = [(w, score) for w, score in words if not any(_same(w, other) for other in above)]
    best = words[0][1] if words else 0.0
    spare = [word for word, score in news if score >= _FAINT * best]
    strong = [word for word, score in news if score >= _STRONG * best]
    return strong or [word for word, score in words if score >= _STRONG * best], spare


def _first_parts(
    words: tuple[list[str], list[str]], label: str, like: str, taken: Sequence[Sequence[str]]
) -> list[str]:
    """Choose the parts of a name, which neither the parent nor a sibling has in the same way."""
    strong, spare = words
    parts = [label] if label else strong[:_NAME_PARTS] or ([like] if like else [])
    others = [{part.casefold() for part in other} for other in taken]
    if not parts or {part.casefold() for part in parts} not in others:
        return parts
    said = set().union(*others)
    apart = [word for word in spare if word.casefold() not in said]
    if label:
        return [label, *apart[:1]] if apart else [label, *([like] if like else [])]
    if set(parts) <= set(spare):
        return [*parts[: _NAME_PARTS - 1], *apart[:1]] if apart else [like] if like else parts
    return apart[:_NAME_PARTS] or ([like] if like else parts)


def _like(nodes: Sequence[Any], titles: Sequence[str], used: set[str]) -> tuple[str, set[str]]:
    """Name a group by typical nodes, one title or two ids, that name no group above it.

    Returns:
        The name, and the titles or ids that this group and those above it are named by.
    """
    texts = [clean(title) for title in titles] or [clean(str(node)) for node in nodes]
    fresh = [text for text in dict.fromkeys(texts) if text and text not in used]
    said = fresh[:1] if titles else fresh[:2]
    return (f"like {', '.join(said)}" if said else ""), {*used, *said}


def _free_name(
    key: tuple[int, int], above: tuple[int, int] | None, like: str, given: _Given
) -> str:
    """Join the parts, with what tells the name from those already given."""
    name, place = " / ".join(given.parts[key]), f"{key[0]}-{key[1]}"
    tries = [name]
    if above and given.parts[above][0] not in name and "[label]" not in name:
        # The same words in different places: the place tells them apart.
        tries.append(f"{name} ({given.parts[above][0]})")
    if like and like not in name:
        tries.append(f"{name} / {like}")
    number = 0
    while all(one in given.taken for one in tries):
        tries.append(f"{name} ({place})" if not number else f"{name} ({place}, {number})")
        number += 1
    return next(one for one in tries if one not in given.taken)


def _asked(namer: Namer | None, facts: GroupFacts, given: _Given) -> str:
    """Return the namer's name, made to fit and to be the only one of its kind."""
    if namer is None:
        return facts.suggestion
    said = namer(facts)
    if said is not None and not isinstance(said, str):
        raise InputError(
            f"the namer returned {type(said).__name__} for group {facts.level}-{facts.group}; "
            f"return a text, or None for the name it would get anyway"
        )
    line = " ".join("".join(c if c.isprintable() else " " for c in said or "").split())[:200]
    if not line:
        return facts.suggestion
    while line in given.taken:
        line = f"{line} ({facts.level}-{facts.group})"
    return line
