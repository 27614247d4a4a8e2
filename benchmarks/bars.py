"""What was asked for, and whether the newest results reach it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.cases.names import GAT, GATCONV, WITH_GROUPS
from benchmarks.measure import Spread, fitted_exponent
from benchmarks.results import Result

Found = Mapping[str, Result]


@dataclass(frozen=True)
class Bar:
    """One number to reach.

    Args:
        title: What is measured.
        prototype: What the throw-away prototype reached, in words.
        bound: The number asked for.
        above: Whether more is better.
        unit: Put behind every number.
        find: Returns the measured number from the results, or ``None``.
        digits: Decimals shown.
        label: Short name for the chart of ratios; none is drawn without.
    """

    title: str
    prototype: str
    bound: float
    above: bool
    unit: str
    find: Callable[[Found], Spread | None]
    digits: int = 1
    label: str = ""

    def is_met(self, measured: Spread) -> bool:
        """Whether the median reaches the bound."""
        return measured.median >= self.bound if self.above else measured.median <= self.bound

    def asked(self) -> str:
        """Return the bound in words."""
        return f"{'≥' if self.above else '≤'} {self.bound:g}{self.unit}"

    def shown(self, measured: Spread) -> str:
        """Return the median, and the spread where there is one."""
        text = f"{measured.median:.{self.digits}f}{self.unit}"
        if measured.low == measured.high:
            return text
        return f"{text} ({measured.low:.{self.digits}f} to {measured.high:.{self.digits}f})"


def _ratio(benchmark: str, name: str, peer: str) -> Callable[[Found], Spread | None]:
    def find(found: Found) -> Spread | None:
        held = found.get(benchmark)
        comparison = held.comparison(name) if held else None
        return comparison.ratio(peer) if comparison and peer in comparison.cpu else None

    return find


def _value(benchmark: str, name: str) -> Callable[[Found], Spread | None]:
    def find(found: Found) -> Spread | None:
        held = found.get(benchmark)
        value = held.value(name) if held else None
        return value.spread if value else None

    return find


def _extra(name: str, side: str) -> Callable[[Found], Spread | None]:
    """Return by how many percent a side of ours is dearer than the block without groups."""

    def find(found: Found) -> Spread | None:
        held = found.get("attention")
        comparison = held.comparison(name) if held else None
        if comparison is None or side not in comparison.cpu:
            return None
        times = comparison.ratio(side)
        return Spread(*(100 * (v - 1) for v in (times.low, times.median, times.high)))

    return find


def _exponent(benchmark: str, name: str) -> Callable[[Found], Spread | None]:
    def find(found: Found) -> Spread | None:
        held = found.get(benchmark)
        curve = held.curve(name) if held else None
        return Spread.of([curve.exponent()]) if curve else None

    return find


# The cost of an epoch against the edges of the graph, and against the edges it samples.
_EPOCHS = ("epoch-together", "epoch-together-work")


def _spent(found: Found, names: tuple[str, ...]) -> float:
    """Return the milliseconds that some parts of our training step take together."""
    parts = [_value("training", name)(found) for name in names]
    return 1e3 * sum(part.median for part in parts if part is not None)


def _wall(benchmark: str, name: str, peer: str) -> Callable[[Found], Spread | None]:
    def find(found: Found) -> Spread | None:
        held = found.get(benchmark)
        comparison = held.comparison(name) if held else None
        return comparison.ratio(peer, "wall") if comparison else None

    return find


BARS = [
    Bar(
        "training step, paper preset, against torch_geometric GAT on the same blocks and pairs, "
        "4 heads",
        "5.1x, heads not recorded",
        8,
        True,
        "x",
        _ratio("training-heads", "paper", GAT),
        label="training step, 4 heads / GAT",
    ),
    Bar(
        "the same, 1 head",
        "5.1x, heads not recorded",
        8,
        True,
        "x",
        _ratio("training", "paper", GAT),
        label="training step, 1 head / GAT",
    ),
    Bar(
        "attention block, 1 head, input without gradient, against GATConv",
        "15x",
        18,
        True,
        "x",
        _ratio("attention", "1-nox", GATCONV),
        label="attention, 1 head / GATConv",
    ),
    Bar(
        "attention block, 4 heads, input without gradient, against GATConv",
        "32x",
        35,
        True,
        "x",
        _ratio("attention", "4-nox", GATCONV),
        label="attention, 4 heads / GATConv",
    ),
    Bar(
        "attention block, 1 head, input with gradient, against GATConv",
        "3.9x",
        6,
        True,
        "x",
        _ratio("attention", "1-dx", GATCONV),
        label="with input gradient, 1 head",
    ),
    Bar(
        "attention block, 4 heads, input with gradient, against GATConv",
        "9.3x",
        12,
        True,
        "x",
        _ratio("attention", "4-dx", GATCONV),
        label="with input gradient, 4 heads",
    ),
    Bar(
        "group attention's extra cost, 1 head, additive (E7)",
        "+18 to 25%",
        15,
        False,
        "%",
        _extra("1-nox", WITH_GROUPS["additive"]),
    ),
    Bar(
        "group attention's extra cost, 4 heads, additive (E7)",
        "+66%",
        15,
        False,
        "%",
        _extra("4-nox", WITH_GROUPS["additive"]),
    ),
    Bar(
        "group attention's extra cost, 1 head, by pair (our default)",
        "",
        15,
        False,
        "%",
        _extra("1-nox", WITH_GROUPS["pair"]),
    ),
    Bar(
        "group attention's extra cost, 4 heads, by pair (our default)",
        "",
        15,
        False,
        "%",
        _extra("4-nox", WITH_GROUPS["pair"]),
    ),
    Bar(
        "walks against the torch-cluster kernel",
        "5.6x",
        6,
        True,
        "x",
        _ratio("walks", "youtube", "torch-cluster"),
        label="walks / torch-cluster",
    ),
    Bar(
        "walks against ensmallen",
        "8x",
        8,
        True,
        "x",
        _ratio("walks", "youtube", "ensmallen"),
        label="walks / ensmallen",
    ),
    Bar(
        "walks against PecanPy",
        "54x",
        50,
        True,
        "x",
        _ratio("walks", "youtube", "pecanpy"),
        label="walks / PecanPy",
    ),
    Bar(
        "two worker processes against one (wall)",
        "",
        1.8,
        True,
        "x",
        _wall("workers", "processes", "one process"),
        2,
    ),
    Bar(
        "exponent of an epoch in nodes and edges, 10^5 to 10^8 edges",
        "",
        1.1,
        False,
        "",
        _exponent("scaling", "epoch-together"),
        2,
    ),
    Bar(
        "the same in the edges that an epoch samples",
        "",
        1.1,
        False,
        "",
        _exponent("scaling", "epoch-together-work"),
        2,
    ),
    Bar(
        "exponent of reading all nodes, 10^5 to 10^8 edges",
        "",
        1.1,
        False,
        "",
        _exponent("scaling-read", "read-together"),
        2,
    ),
    Bar(
        "peak memory of training at Amazon size",
        "3.35 GiB",
        3.5,
        False,
        " GiB",
        _value("epoch", "rss"),
        2,
    ),
    Bar(
        "one epoch at Amazon size (extrapolated)",
        "0.63 CPU-hours",
        0.45,
        False,
        " CPU-hours",
        _value("epoch", "epoch"),
        2,
    ),
    Bar(
        "reading all 2.45 M nodes, all neighbours",
        "58 CPU-s",
        50,
        False,
        " CPU-s",
        _value("inference", "cpu"),
    ),
    Bar(
        "peak memory of reading all nodes",
        "4.5 GiB",
        4,
        False,
        " GiB",
        _value("inference", "rss"),
        2,
    ),
    Bar(
        "60 M string-id rows, Parquet to store",
        "1 M rows/CPU-s",
        2,
        True,
        " M rows/CPU-s",
        _value("ingest", "rate"),
        2,
    ),
    Bar("peak memory of that", "", 6, False, " GiB", _value("ingest", "rss"), 2),
    Bar(
        "Cora, paper preset, against the plain-torch path",
        "",
        5,
        True,
        "x",
        _ratio("cora", "paper", "plain torch"),
        label="Cora, paper preset / plain torch",
    ),
    Bar(
        "Cora, default preset, against the plain-torch path",
        "",
        5,
        True,
        "x",
        _ratio("cora", "default", "plain torch"),
        label="Cora, default preset / plain torch",
    ),
]


# The parts of our training step that any method on the same blocks and pairs has to do as well,
# and those that make GraphHAM of it.
_SHARED_PARTS = ("sampling, walks, negatives, features", "losses", "weights and tables")
_OWN_PARTS = ("forward", "backward")


def limits(found: Found) -> list[str]:
    """Return, in sentences, what the same runs say about bars that are not met."""
    lines: list[str] = []
    step = _ratio("training", "paper", GAT)(found)
    if step is not None and step.median < 8:
        comparison = found["training"].comparison("paper")
        assert comparison is not None
        left = 1e3 * Spread.of(comparison.cpu[GAT]).median / 8
        shared, own = (_spent(found, names) for names in (_SHARED_PARTS, _OWN_PARTS))
        lines.append(
            f"Training step, one head: eight times the peer's pace leaves {left:.0f} ms of CPU a "
            f"step. Drawing it, its pair losses and the tables, which the peer has as well, take "
            f"{shared:.0f} ms; memberships of all sources, both attentions and the way back "
            f"{own:.0f} ms."
        )
    grown = _exponent("scaling", "epoch-together")(found)
    curves = [found["scaling"].curve(n) for n in _EPOCHS] if grown is not None else []
    if grown is not None and grown.median > 1.1 and all(curves):
        edges, sampled = (curve.x for curve in curves if curve is not None)
        growth = fitted_exponent(edges, sampled)
        lines.append(
            f"Exponent of an epoch: the edges it samples grow with exponent {growth:.2f} by "
            f"themselves, whoever samples them, because the neighbourhoods of a small graph's "
            f"targets overlap. What is above that is memory farther away on larger graphs."
        )
    fit = _ratio("cora", "default", "plain torch")(found)
    products = _value("cora", "products")(found)
    if fit is not None and fit.median < 5 and products is not None:
        comparison = found["cora"].comparison("default")
        assert comparison is not None
        plain = Spread.of(comparison.cpu["plain torch"]).median
        lines.append(
            f"Cora, default preset: the plain-torch fit takes {plain:.2f} CPU-s, and the matrix "
            f"products of its contrasts alone {products.median:.2f}, which are the same on both "
            f"sides: with everything else for nothing the ratio would be "
            f"{plain / products.median:.1f}x."
        )
    both, roof = _wall("workers", "processes", "one process")(found), None
    if both is not None and both.median < 1.8:
        roof = _value("workers", "processes-roof")(found)
    if both is not None and roof is not None:
        lines.append(
            f"Two processes: two jobs that share nothing at all gain {roof.median:.2f}x on this "
            f"machine, so {both.median:.2f}x is {100 * both.median / roof.median:.0f}% of what "
            f"its two cores give."
        )
    return lines
