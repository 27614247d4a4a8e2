"""Say what each group is: its typical features and nodes, the nodes on its edge, and a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.results.name_words import (
    IdTexts,
    Terms,
    feature_word,
    member_matrix,
    title_terms,
)
from graphham.results.names import Namer, label_name, name_tree
from graphham.results.result import FitResult
from graphham.results.scores import contingency

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 1 << 15
# Pseudo-members at the overall rate: a feature of two members in a group of two is no profile.
_PRIOR_MEMBERS = 5.0


@dataclass(frozen=True)
class TypicalFeature:
    """A feature that members of a group have more often than other nodes.

    Args:
        feature: The feature's name.
        lift: How many times as often as overall, shrunk towards 1 in small groups.
        share: Share of the members that have it.
        score: Ranking weight; grows with share and lift, and with the number of members.
    """

    feature: str
    lift: float
    share: float
    score: float


def groups_table(
    result: FitResult,
    graph: Graph,
    top_features: int = 8,
    top_nodes: int = 5,
    namer: Namer | None = None,
    by_labels: bool = False,
    kept_names: Mapping[tuple[int, int], str] | None = None,
) -> pa.Table:
    """Describe every group in one table row.

    Columns: ``level, group, name, size, share, parent, parent_share``; ``typical_features`` (a
    list of feature, lift and share); ``typical_nodes`` (highest membership, then nearest to the
    group's mean vector) and ``boundary_nodes`` (smallest margin between the two strongest
    memberships), both as the user's ids; ``dominant_label`` and ``purity`` among members with
    known labels; ``typical_titles`` where the graph has titles.

    A member has a sparse or mostly-zero feature if its value is not zero, and any other dense
    feature if its value lies above the overall mean. The cost is linear in nodes and stored
    feature values.

    Args:
        result: The fit.
        graph: The graph that was fitted.
        top_features: Most features to list of a group.
        top_nodes: Most nodes to list of a group.
        namer: Your own function, called once per group that has members, parents first.
        by_labels: Name groups after the labels that most members have; such names end with
            ``[label]``. Otherwise labels name nothing.
        kept_names: Names that stay as they are, by level and group.
    """
    import pyarrow as pa

    if graph.num_nodes != result.num_nodes or graph.ids != result.ids:
        raise InputError(
            f"the graph has {graph.num_nodes:,} nodes that are not those of the result "
            f"({result.num_nodes:,}); describe groups with the graph they were found in"
        )
    features: list[list[TypicalFeature]] = []
    typical, boundary = [], []
    labels: list[tuple[Any, float | None]] = []
    counts, overall = _feature_counts(result, graph)
    sizes = [
        np.bincount(codes, minlength=k)
        for codes, k in zip(result.groups, result.group_counts, strict=True)
    ]
    for level in range(result.num_levels):
        features += _typical_features(
            counts[level] if counts else None, overall, sizes[level], graph, top_features
        )
        labels += _dominant_labels(result, level)
        typical.append(_typical_rows(result, level, max(top_nodes, 2)))
        boundary += _boundary_rows(result, level, top_nodes)
    names = name_tree(
        result.hierarchy,
        _terms(result, graph, counts, overall, sizes),
        [[result.ids.take(rows).tolist() for rows in of] for of in typical],
        _titles(graph, typical),
        _label_names(result) if by_labels else None,
        namer,
        kept_names,
    )
    table = result.hierarchy.named(names).to_table()
    shown = [rows[:top_nodes] for of in typical for rows in of]
    columns: dict[str, Any] = {
        "typical_features": _feature_lists(features),
        "typical_nodes": _id_lists(result, shown),
        "boundary_nodes": _id_lists(result, boundary),
        "dominant_label": _label_values([value for value, _ in labels]),
        "purity": pa.array([p for _, p in labels], type=pa.float64()),
    }
    if graph.titles is not None:
        titles = [[str(graph.titles[r]) for r in rows.tolist()] for rows in shown]
        columns["typical_titles"] = pa.array(titles, type=pa.list_(pa.string()))
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _terms(
    result: FitResult,
    graph: Graph,
    counts: list[sp.csr_matrix],
    overall: npt.NDArray[np.float64],
    sizes: list[npt.NDArray[np.int64]],
) -> list[Terms]:
    """Gather the words that may name groups: of features, and of titles."""
    found = []
    words = tuple(feature_word(feature_name(graph, c)) for c in range(len(overall)))
    if any(words):
        found.append(Terms(words, counts, overall, result.num_nodes, sizes))
    if graph.titles is not None:
        found.append(
            title_terms(graph.titles, result.groups, result.group_counts, with_words=not found)
        )
    elif not found and result.ids.kind == "text":
        # Ids of files, modules and people are often made of words.
        texts = IdTexts(result.ids)
        found.append(title_terms(texts, result.groups, result.group_counts, True, False))
    return found


def _titles(
    graph: Graph, typical: Sequence[Sequence[npt.NDArray[np.int64]]]
) -> list[list[list[str]]] | None:
    if graph.titles is None:
        return None
    titles = graph.titles
    return [[[str(titles[row]) for row in rows.tolist()] for rows in of] for of in typical]


def _label_names(result: FitResult) -> list[list[str]]:
    """Name groups after a label that most members have, or two that most have together."""
    found = []
    for level in range(result.num_levels):
        first, second = _frequent_labels(result, level, 0), _frequent_labels(result, level, 1)
        names = []
        for (one, share), (two, more) in zip(first, second, strict=True):
            if share is None or share + (more or 0.0) < 0.5:
                names.append("")
            else:
                names.append(label_name([one] if share >= 0.5 else [one, two]))
        found.append(names)
    return found


def boundary_table(result: FitResult, count: int = 20) -> pa.Table:
    """List the nodes between two groups, with the two that each lies between.

    Args:
        result: The fit.
        count: How many nodes, those most between first.

    Returns:
        One row per node: ``id, between, evidence, level, first_group, second_group,
        first_membership, second_membership``; the level is the one with the smallest margin.
    """
    import pyarrow as pa

    if count < 0:
        raise InputError(f"cannot list {count} boundary nodes; give a number of at least 0")
    if not result.memberships:
        raise InputError("the fit has no memberships, so no node lies between groups")
    rows = np.argsort(-result.between, kind="stable")[:count]
    known = result.evidence[rows] if len(result.evidence) else [None] * len(rows)
    evidence = pa.array(known, pa.float32())
    per_level = [two_strongest(member[rows]) for member in result.memberships]
    margins = np.stack([first - second for _, _, first, second in per_level])
    # A level with a single group has no second choice and cannot be the one that is undecided.
    margins[np.array(result.group_counts) == 1] = np.inf
    level = margins.argmin(axis=0) if len(rows) else np.zeros(0, dtype=np.int64)
    picked = [np.stack([p[i] for p in per_level])[level, np.arange(len(rows))] for i in range(4)]
    return pa.table(
        {
            "id": result.ids.take(rows).to_arrow(),
            "between": pa.array(result.between[rows]),
            "evidence": evidence,
            "level": pa.array((level + 1).astype(np.int32)),
            "first_group": pa.array(picked[0].astype(np.int32)),
            "second_group": pa.array(picked[1].astype(np.int32), mask=picked[1] < 0),
            "first_membership": pa.array(picked[2].astype(np.float32)),
            "second_membership": pa.array(picked[3].astype(np.float32)),
        }
    )


def two_strongest(
    member: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return each row's strongest and second group (-1 if there is one group) and their values."""
    n, k = member.shape
    first, second = np.zeros(n, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    high, low = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
    for start in range(0, n, _CHUNK):
        part = np.array(member[start : start + _CHUNK], dtype=np.float32)
        each, stop = np.arange(len(part)), start + len(part)
        first[start:stop] = best = part.argmax(axis=1)
        high[start:stop] = part[each, best]
        if k > 1:
            part[each, best] = -1
            second[start:stop] = best = part.argmax(axis=1)
            low[start:stop] = part[each, best]
    return first, second, high, low


def feature_name(graph: Graph, column: int) -> str:
    """Return the user's name of a feature column, or ``feature 17`` when there is none."""
    named = graph.feature_names is not None and column < len(graph.feature_names)
    return str(graph.feature_names[column]) if named else f"feature {column}"  # type: ignore[index]


def features_of(graph: Graph, row: int) -> list[str]:
    """Name the features one node has, by the same rule that :func:`groups_table` counts with."""
    x: Any = graph.features
    if x is None:
        return []
    if sp.issparse(x):
        part = slice(x.indptr[row], x.indptr[row + 1])
        columns = x.indices[part][x.data[part] != 0]
    else:
        bar = _presence_bar(x)
        values = np.asarray(x[row], dtype=np.float32)
        columns = np.flatnonzero(values != 0 if bar is None else values > bar)
    return [feature_name(graph, int(c)) for c in columns]


def _feature_counts(
    result: FitResult, graph: Graph
) -> tuple[list[sp.csr_matrix], npt.NDArray[np.float64]]:
    """Count members with each feature, per level ``(num_groups, num_features)``, and overall."""
    x: Any = graph.features
    if x is None or x.shape[1] == 0:
        return [], np.zeros(0)
    width = x.shape[1]
    sums = [member_matrix(g, k) for g, k in zip(result.groups, result.group_counts, strict=True)]
    if sp.issparse(x):
        has = sp.csr_matrix(((x.data != 0).astype(np.float32), x.indices, x.indptr), shape=x.shape)
        # float32 counts are exact up to 16.7 million members of one group, beyond our scale.
        counts = [sp.csr_matrix(s @ has) for s in sums]
        overall = np.bincount(x.indices, weights=has.data, minlength=width)
        return counts, overall.astype(np.float64)
    bar = _presence_bar(x)
    dense = [np.zeros((k, width)) for k in result.group_counts]
    total = np.zeros(width)
    for start in range(0, len(x), _CHUNK):
        part = np.asarray(x[start : start + _CHUNK], dtype=np.float32)
        has_part = (part != 0 if bar is None else part > bar).astype(np.float32)
        total += has_part.sum(axis=0, dtype=np.float64)
        for level, codes in enumerate(result.groups):
            piece = codes[start : start + _CHUNK]
            dense[level] += member_matrix(piece, result.group_counts[level]) @ has_part
    return [sp.csr_matrix(d) for d in dense], total


def _presence_bar(x: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """Return the column means a dense value must exceed to count, or ``None`` for "not zero"."""
    sample = np.asarray(x[:: max(1, len(x) // 4096)])
    if (sample == 0).mean() >= 0.5:
        return None
    total = np.zeros(x.shape[1])
    for start in range(0, len(x), _CHUNK):
        total += np.asarray(x[start : start + _CHUNK], dtype=np.float64).sum(axis=0)
    return total / max(len(x), 1)


def _typical_features(
    counts: sp.csr_matrix | None,
    overall: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    graph: Graph,
    top: int,
) -> list[list[TypicalFeature]]:
    """Rank the features of each group of one level by how much they set it apart."""
    if counts is None:
        return [[] for _ in sizes]
    found = []
    for group, size in enumerate(sizes.tolist()):
        part = slice(counts.indptr[group], counts.indptr[group + 1])
        columns, having = counts.indices[part], counts.data[part].astype(np.float64)
        base = overall[columns] / max(sizes.sum(), 1)
        weight = size + _PRIOR_MEMBERS
        rate = (having + _PRIOR_MEMBERS * base) / weight
        # One standard error down: rare words that happen to meet in a group must not win.
        sure = rate - np.sqrt(np.maximum(rate * (1 - rate), 0) / weight)
        keep = np.flatnonzero((having >= min(2, size)) & (sure > base))
        score = sure[keep] * np.log(sure[keep] / base[keep])
        best = keep[np.lexsort((columns[keep], -score))[:top]]
        ranked = sure[best] * np.log(sure[best] / base[best])
        found.append(
            [
                TypicalFeature(
                    feature_name(graph, int(columns[i])),
                    lift=float(rate[i] / base[i]),
                    share=float(having[i] / size),
                    score=float(points),
                )
                for i, points in zip(best.tolist(), ranked.tolist(), strict=True)
            ]
        )
    return found


def _dominant_labels(result: FitResult, level: int) -> list[tuple[Any, float | None]]:
    return _frequent_labels(result, level, 0)


def _frequent_labels(result: FitResult, level: int, place: int) -> list[tuple[Any, float | None]]:
    """Return per group its most frequent label (``place`` 0) or the next one, with its share."""
    labels: Labels | None = result.labels
    codes, k = result.groups[level], result.group_counts[level]
    if labels is None or len(labels.classes) <= place:
        return [(None, None)] * k
    known = labels.known
    members = np.bincount(codes[known], minlength=k)
    if labels.codes is not None:
        counts = contingency(codes[known], labels.codes[known], k, len(labels.classes))
    else:
        assert labels.matrix is not None
        counts = (member_matrix(codes, k) @ labels.matrix.astype(np.float32)).toarray()
    best = np.argsort(-counts, axis=1, kind="stable")[:, place]
    return [
        (labels.classes[b], float(counts[g, b] / members[g])) if members[g] else (None, None)
        for g, b in enumerate(best.tolist())
    ]


def _feature_lists(features: Sequence[Sequence[TypicalFeature]]) -> Any:
    import pyarrow as pa

    struct = pa.struct([("feature", pa.string()), ("lift", pa.float32()), ("share", pa.float32())])
    listed = [
        [{"feature": f.feature, "lift": f.lift, "share": f.share} for f in group]
        for group in features
    ]
    return pa.array(listed, type=pa.list_(struct))


def _label_values(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if _all_whole(values):
        return pa.array(values, type=pa.int64())
    return pa.array([None if v is None else str(v) for v in values], type=pa.string())


def _all_whole(values: Sequence[Any]) -> bool:
    seen = [v for v in values if v is not None]
    whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in seen)
    return bool(seen) and whole


def _typical_rows(result: FitResult, level: int, top: int) -> list[npt.NDArray[np.int64]]:
    codes, k = result.groups[level], result.group_counts[level]
    # Groups without memberships hold all their members equally firmly.
    member = np.ones(len(codes), dtype=np.float32)
    if result.memberships:
        member = result.memberships[level][np.arange(len(codes)), codes]
    centre = _unit(member_matrix(codes, k) @ result.embedding)
    closeness = np.zeros(len(codes), dtype=np.float32)
    for start in range(0, len(codes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        unit = _unit(np.asarray(result.embedding[rows]))
        closeness[rows] = np.einsum("nd,nd->n", unit, centre[codes[rows]])
    # A saturated softmax differs only in noise; memberships equal to three digits are a tie.
    return _leaders(codes, k, top, -np.round(member, 3), -closeness)


def _boundary_rows(result: FitResult, level: int, top: int) -> list[npt.NDArray[np.int64]]:
    codes, k = result.groups[level], result.group_counts[level]
    if k == 1 or not result.memberships:
        return [np.zeros(0, dtype=np.int64)] * k
    _, _, high, low = two_strongest(result.memberships[level])
    return _leaders(codes, k, top, high - low)


def _leaders(
    codes: npt.NDArray[Any], num_groups: int, top: int, *keys: npt.NDArray[Any]
) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each group with the smallest keys (first key first)."""
    order = np.lexsort((*reversed(keys), codes))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=num_groups))])
    return [order[a : min(a + top, b)] for a, b in pairwise(bounds.tolist())]


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _id_lists(result: FitResult, rows: Sequence[npt.NDArray[np.int64]]) -> Any:
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int32)
    flat = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets), result.ids.take(flat).to_arrow())
