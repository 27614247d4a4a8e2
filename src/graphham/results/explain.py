"""Say why one node is where it is: its groups, what pulls it elsewhere, and whom it listens to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.results.describe import features_of
from graphham.results.result import FitResult
from graphham.system.atomic import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.groups.contributions import Contributions


_LEAST_NAMED = 0.005  # a share of the weight that is shown as 1%


@dataclass(frozen=True, eq=False)
class NodeAttention:
    """How one layer spreads a node's attention over its neighbours and itself.

    Args:
        neighbor_rows: ``(count,)`` rows attended to, the node itself included where it attends to
            itself.
        node_attention: ``(count,)`` attention from the states (alpha), averaged over heads.
        group_attention: ``(count,)`` attention from the groups (lambda), averaged over heads.
        weight: ``(count,)`` weight each message really had.
    """

    neighbor_rows: npt.NDArray[Any]
    node_attention: npt.NDArray[Any]
    group_attention: npt.NDArray[Any]
    weight: npt.NDArray[Any]


@dataclass(frozen=True)
class NeighborView:
    """One neighbour as the node sees it through one layer."""

    id: int | str
    title: str | None
    is_self: bool
    group: int
    group_name: str
    node_attention: float
    group_attention: float
    weight: float
    weight_share: float


@dataclass(frozen=True)
class NeighborPart:
    """What one link adds to the log-odds of a node's group."""

    id: int | str
    title: str | None
    group_name: str
    contribution: float


@dataclass(frozen=True)
class Reasons:
    """Why a node is in its group and not in the next one: parts that add up to the log-odds.

    ``features`` is what its own features say, ``levels_above`` what they say of the coarser groups,
    ``links`` the sum over all its links (the strongest are listed), ``spread`` what being spread
    over several finer groups adds; ``log_odds`` is their sum.
    """

    against: str
    log_odds: float
    features: float
    levels_above: float
    spread: float
    links: float
    neighbors: list[NeighborPart]


@dataclass(frozen=True)
class LevelView:
    """The node's place on one level and the group that competes for it.

    ``own_weight`` and ``second_weight`` are the shares of the message weight of this level's layer
    that come from neighbours in the node's own and in the second group; in ``pulled_by`` too, each
    ``weight_share`` is of the neighbours' weight, without what the node tells itself.
    """

    level: int
    group: int
    name: str
    membership: float
    second_group: int | None
    second_name: str | None
    second_membership: float | None
    own_weight: float | None
    second_weight: float | None
    pulled_by: list[NeighborView]
    neighbors: list[NeighborView]
    why: Reasons | None = None


@dataclass(frozen=True)
class SharedFeature:
    """A feature of the node that is typical for its finest group."""

    feature: str
    lift: float
    share: float


@dataclass(frozen=True)
class Explanation:
    """Everything :func:`explain_node` found about one node, in the user's own ids.

    Args:
        id: The node.
        title: Its title where the graph has titles.
        degree: Number of neighbours.
        concentration: How firmly it commits to one group.
        firmer_than: Share of all nodes that commit less.
        label: Its known label, or list of labels.
        prediction: The predicted label after classification.
        confidence: Probability of the prediction.
        levels: One entry per level, fine to coarse.
        features: What it shares with its finest group, most typical first.
    """

    id: int | str
    title: str | None
    degree: int
    concentration: float
    firmer_than: float
    label: Any
    prediction: Any
    confidence: float | None
    levels: list[LevelView]
    features: list[SharedFeature]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values that JSON can hold."""
        values: dict[str, Any] = plain(asdict(self))
        return values

    def __str__(self) -> str:
        title = f" ({_line(self.title)})" if self.title else ""
        lines = [f"{_line(self.id)}{title}", f"  {_count(self.degree, 'neighbour')}"]
        if self.label is not None:
            lines[-1] += f", label {_line(self.label)}"
        if self.prediction is not None:
            sure = "" if self.confidence is None else f" ({_percent(self.confidence)} sure)"
            lines[-1] += f", predicted {_line(self.prediction)}{sure}"
        # Whole percents, rounded down: what the explorer can say from its 101 percentiles.
        below = math.floor(100 * self.firmer_than + 1e-9)
        firm = f"{self.concentration:.2f} of 1, firmer than {below}% of all nodes"
        lines.append(f"  concentration {firm}")
        for level in self.levels:
            lines += _level_lines(level)
        if self.features:
            lines.append("  features it shares with its finest group")
            lines += [
                f"    {_line(f.feature)}: {_percent(f.share)} of the group, {f.lift:.1f} times as "
                f"often as overall"
                for f in self.features
            ]
        return "\n".join(lines)


def explain_node(
    result: FitResult,
    graph: Graph,
    row: int,
    attention: Sequence[NodeAttention],
    groups: pa.Table,
    count: int = 6,
    reasons: Sequence[Contributions] = (),
) -> Explanation:
    """Explain one node.

    Args:
        result: The fit.
        graph: The graph it was fitted on, in the same row order.
        row: The node's row; find it with ``result.ids.row(id)``.
        attention: One entry per layer, fine to coarse; empty if attention is not at hand.
        groups: The table of :func:`graphham.results.describe.groups_table`.
        count: How many neighbours and features to list.
        reasons: Per level what its membership is made of; empty where the method cannot say.
    """
    if not 0 <= row < result.num_nodes:
        raise InputError(f"there is no row {row}; rows run from 0 to {result.num_nodes - 1}")
    if attention and len(attention) != result.num_levels:
        raise InputError(
            f"attention of {len(attention)} layers does not fit {result.num_levels} levels"
        )
    facts = groups.select(["level", "group", "name", "typical_features"]).to_pylist()
    table = {(fact["level"], fact["group"]): fact for fact in facts}
    scores = result.concentration
    levels = [
        _read_level(
            result, graph, row, level, attention[level - 1] if attention else None, table, count
        )
        for level in range(1, result.num_levels + 1)
    ]
    if reasons:
        levels = [
            replace(view, why=_reasons(result, graph, view, parts, table, count))
            for view, parts in zip(levels, reasons, strict=True)
        ]
    typical = table[1, levels[0].group]["typical_features"] or []
    return Explanation(
        id=result.ids[row],
        title=_title(graph, row),
        degree=len(graph.neighbors(row)),
        concentration=float(scores[row]),
        firmer_than=float((scores < scores[row]).mean()),
        label=None if result.labels is None else result.labels.take(np.array([row])).values()[0],
        prediction=(
            None
            if result.prediction is None
            else result.prediction.take(np.array([row])).values()[0]
        ),
        confidence=None if result.confidence is None else float(result.confidence[row]),
        levels=levels,
        features=_shared_features(graph, row, typical)[:count],
    )


def _read_level(
    result: FitResult,
    graph: Graph,
    row: int,
    level: int,
    attention: NodeAttention | None,
    table: dict[tuple[int, int], dict[str, Any]],
    count: int,
) -> LevelView:
    member = result.memberships[level - 1][row]
    codes = result.groups[level - 1]
    own = int(codes[row])
    others = np.where(np.arange(len(member)) == own, -1, member)
    second = int(others.argmax()) if len(member) > 1 else None
    seen = _neighbors(result, graph, row, level, attention, table)
    # A node's message to itself says nothing about where its neighbours pull it.
    around = [n for n in seen if not n.is_self]
    total = sum(n.weight for n in around)

    def share(group: int | None) -> float | None:
        if not total or group is None:
            return None
        return sum(n.weight for n in around if n.group == group) / total

    return LevelView(
        level=level,
        group=own,
        name=table[level, own]["name"],
        membership=float(member[own]),
        second_group=second,
        second_name=None if second is None else table[level, second]["name"],
        second_membership=None if second is None else float(member[second]),
        own_weight=share(own),
        second_weight=share(second),
        pulled_by=[
            replace(n, weight_share=n.weight / (total or 1.0)) for n in around if n.group == second
        ][:count],
        neighbors=seen[:count],
    )


def _reasons(
    result: FitResult,
    graph: Graph,
    view: LevelView,
    parts: Any,
    table: dict[tuple[int, int], dict[str, Any]],
    count: int,
) -> Reasons | None:
    if view.second_group is None:
        return None
    codes = result.groups[view.level - 1]
    strongest = np.argsort(-np.abs(parts.neighbors), kind="stable")[:count]
    near = [
        NeighborPart(
            id=result.ids[int(parts.neighbor_rows[i])],
            title=_title(graph, int(parts.neighbor_rows[i])),
            group_name=table[view.level, int(codes[parts.neighbor_rows[i]])]["name"],
            contribution=float(parts.neighbors[i]),
        )
        for i in strongest
    ]
    return Reasons(
        against=table[view.level, parts.other]["name"],
        log_odds=parts.log_odds,
        features=parts.prior + parts.features,
        levels_above=parts.parent,
        spread=parts.spread,
        links=float(parts.neighbors.sum()),
        neighbors=near,
    )


def _neighbors(
    result: FitResult,
    graph: Graph,
    row: int,
    level: int,
    attention: NodeAttention | None,
    table: dict[tuple[int, int], dict[str, Any]],
) -> list[NeighborView]:
    """Return the neighbours of one layer, the weightiest first."""
    if attention is None:
        return []
    rows = np.asarray(attention.neighbor_rows)
    weight = np.asarray(attention.weight, dtype=np.float64)
    total = float(weight.sum()) or 1.0
    views = []
    for i in np.argsort(-weight, kind="stable").tolist():
        other = int(rows[i])
        group = int(result.groups[level - 1][other])
        views.append(
            NeighborView(
                id=result.ids[other],
                title=_title(graph, other),
                is_self=other == row,
                group=group,
                group_name=table[level, group]["name"],
                node_attention=float(attention.node_attention[i]),
                group_attention=float(attention.group_attention[i]),
                weight=float(weight[i]),
                weight_share=float(weight[i]) / total,
            )
        )
    return views


def _shared_features(
    graph: Graph, row: int, typical: Sequence[dict[str, Any]]
) -> list[SharedFeature]:
    if graph.features is None or not typical:
        return []
    has = set(features_of(graph, row))
    return [
        SharedFeature(f["feature"], float(f["lift"]), float(f["share"]))
        for f in typical
        if f["feature"] in has
    ]


def _title(graph: Graph, row: int) -> str | None:
    return None if graph.titles is None else str(graph.titles[row])


def _level_lines(level: LevelView) -> list[str]:
    lines = [f"  level {level.level}: {level.name} ({_percent(level.membership)})"]
    if level.second_group is not None:
        lines.append(f"    next: {level.second_name} ({_percent(level.second_membership or 0.0)})")
        if level.own_weight is not None and level.second_weight is not None:
            lines[-1] += (
                f"; neighbours' weight: {_percent(level.own_weight)} from its own group, "
                f"{_percent(level.second_weight)} from there"
            )
        # A name with 0% behind it would be no reason.
        named = [n for n in level.pulled_by if n.weight_share >= _LEAST_NAMED]
        if named:
            names = ", ".join(f"{_line(n.id)} ({_percent(n.weight_share)})" for n in named)
            lines.append(f"    pulled there by {names}")
    if level.why is not None:
        why = level.why
        lines.append(
            f"    why not {why.against}, if it were in one only: "
            f"log-odds {why.log_odds:+.2f} = own features "
            f"{why.features:+.2f}, links {why.links:+.2f}, levels above {why.levels_above:+.2f}"
            + (f", spread over finer groups {why.spread:+.2f}" if why.spread else "")
        )
        width = _width(n.id for n in why.neighbors)
        lines += [
            f"      link to {_line(n.id, width):<{width}} {n.contribution:+.2f}  {n.group_name}"
            for n in why.neighbors
        ]
    if level.neighbors:
        width = _width(n.id for n in level.neighbors)
        lines.append(f"    {'listens to':<{width + 3}}node att.  group att.  weight")
        lines += [
            f"      {_line(n.id, width):<{width}} {n.node_attention:9.3f} "
            f"{n.group_attention:11.3f} {_percent(n.weight_share):>7}  "
            f"{'itself' if n.is_self else n.group_name}"
            for n in level.neighbors
        ]
    return lines


def _width(ids: Iterable[int | str]) -> int:
    """Return how wide a column of ids is: enough to tell modules of one package apart."""
    return max([18, *(len(_line(id, 48)) for id in ids)])


def _percent(share: float) -> str:
    """Return whole percents, halves rounded up as the explorer's page rounds them."""
    return f"{math.floor(100 * share + 0.5)}%"


def _line(value: Any, width: int = 80) -> str:
    """Show a user's text on one line: control characters escaped, long text cut."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    shown = shown or "''"
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
