"""Write docs/benchmarks.md and its plots from the stored results; nothing on it is typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import plots, results
from benchmarks.bars import BARS, Bar, limits
from benchmarks.cases import CASES
from benchmarks.measure import Spread
from benchmarks.results import Comparison, Curve, Result

DOCS = results.ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
PLOTS = DOCS / "images" / "benchmarks"
_CLOCK = "per CPU-second"


def outputs(folder: Path = results.FOLDER) -> dict[Path, str]:
    """Return the page and every plot with what they should hold."""
    runs = results.history(folder)
    found = {name: held[0] for name, held in runs.items()}
    pictures = {PLOTS / f"{name}.svg": text for name, text in _pictures(found).items()}
    return {PAGE: build(found, runs), **pictures}


def write(check: bool = False) -> list[str]:
    """Write what is out of date and return its names; ``check`` writes nothing."""
    wanted = outputs()
    stale = [p for p, text in wanted.items() if not p.is_file() or p.read_text("utf-8") != text]
    if not check:
        PLOTS.mkdir(parents=True, exist_ok=True)
        for path in stale:
            path.write_text(wanted[path], "utf-8")
        for path in set(PLOTS.glob("*.svg")) - set(wanted):
            path.unlink()
    return [path.name for path in stale]


def build(found: Mapping[str, Result], runs: Mapping[str, Sequence[Result]] | None = None) -> str:
    """Return the whole page.

    Args:
        found: The newest result of every benchmark.
        runs: All results of every benchmark, the newest first.
    """
    lines = [
        "# Measured: speed and memory",
        "",
        "<!-- written by `python -m benchmarks page` from benchmarks/results; do not edit -->",
        "",
        "Every comparison runs graphham and its peers in turn in one run, one thread each, the",
        "order reversed every other round. A ratio is taken within a round; shown is the median,",
        "with the smallest and largest in brackets. Ratios above 1 mean graphham is faster.",
        "The brackets span the rounds of one run; runs at different times can differ by more, so",
        "earlier runs are named below the newest one.",
        "The machine was shared with other work, so ratios mean more than rates. Graphs are",
        "planted hierarchies from `graphham.graph.planted` at the sizes of com-Youtube (1.14 M",
        "nodes, 6 M directed edges) and of ogbn-products (2.45 M, 124 M), ids shuffled.",
        "",
        "*Share of the roof* is the least time in which this machine can move the bytes the task",
        "needs (random rows and streams, both measured in the same run) over the time taken. Where",
        "a block's rows fit partly into the cache it can exceed what memory alone would allow.",
        "",
        "Repeat it (what is measured already today at this commit is kept):",
        "",
        "```sh",
        "make bench                                # peers, all benchmarks, this page",
        "python -m benchmarks run attention --again",
        "python -m benchmarks page",
        "```",
        "",
        "## What was asked for",
        "",
        *_bar_table(found),
        "",
    ]
    for line in limits(found):
        lines += [line, ""]
    if ratios := _ratio_rows(found):
        assert ratios
        lines += ["![ratios](images/benchmarks/ratios.svg)", ""]
    for name, case in CASES.items():
        if name in found:
            lines += [f"## {case.title}", "", *_section(name, found[name])]
            lines += _earlier((runs or {}).get(name, [])[1:])
    lines += ["## Where and with what", "", *_origin(found), ""]
    return "\n".join(lines)


def _bar_table(found: Mapping[str, Result]) -> list[str]:
    rows = []
    for bar in BARS:
        measured = bar.find(found)
        verdict = "not measured" if measured is None else _verdict(bar, measured)
        shown = "" if measured is None else bar.shown(measured)
        rows.append([bar.title, bar.prototype, bar.asked(), shown, verdict])
    return _table(["benchmark", "prototype", "asked for", "measured", ""], rows)


def _verdict(bar: Bar, measured: Spread) -> str:
    return "met" if bar.is_met(measured) else "**not met**"


def _section(name: str, result: Result) -> list[str]:
    lines: list[str] = []
    for note in result.notes:
        lines += [f"{note[0].upper()}{note[1:]}.", ""]
    if result.comparisons:
        rows = [row for c in result.comparisons for row in _comparison_rows(c)]
        head = ["task", "side", "rate", f"ratio {_CLOCK}", "ratio per second", "share of the roof"]
        lines += [*_table(head, rows), ""]
        if roofs := _roofs(result):
            lines += [roofs, ""]
    if result.values:
        rows = [[v.title, _spread(v.spread, v.unit)] for v in result.values]
        lines += [*_table(["number", "value"], rows), ""]
    for curve in result.curves:
        lines += [f"![{curve.title}](images/benchmarks/{name}-{curve.name}.svg)", ""]
    if result.curves:
        lines += [*_curve_table(result.curves), ""]
    for peer, reason in result.missing.items():
        lines += [f"*{peer} could not take part: {reason}*", ""]
    return lines


def _earlier(runs: Sequence[Result]) -> list[str]:
    """Return one line per earlier run with its median ratios or numbers."""
    lines: list[str] = []
    for result in runs:
        facts = result.facts
        parts = [
            f"{comparison.name} / {side} {comparison.ratio(side).median:.3g}x"
            for comparison in result.comparisons
            for side in comparison.cpu
            if side != comparison.ours
        ]
        if not result.comparisons:
            parts = [
                f"{value.title} {_spread(value.spread, value.unit)}" for value in result.values
            ]
        said = "; ".join(parts) or "nothing"
        lines += [f"Earlier run ({facts['date']}, {facts['commit'][:7]}): {said}.", ""]
    return lines


def _comparison_rows(comparison: Comparison) -> list[list[str]]:
    rows = []
    for side in comparison.cpu:
        share = comparison.share_of_roof(side)
        is_ours = side == comparison.ours
        rows.append(
            [
                comparison.title if is_ours else "",
                side,
                f"{_scaled(comparison.rate(side))} {comparison.unit}/CPU-s",
                "" if is_ours else _times(comparison.ratio(side)),
                "" if is_ours else _times(comparison.ratio(side, "wall")),
                "" if share is None else f"{share:.0%}",
            ]
        )
    return rows


def _roofs(result: Result) -> str:
    roofs = [c.roof for c in result.comparisons if c.roof is not None]
    if not roofs:
        return ""
    triad = Spread.of([roof.triad / 1e9 for roof in roofs])
    rows = sorted({roof.row_bytes for roof in roofs})
    gather = Spread.of([roof.gather / 1e9 for roof in roofs])
    width = " or ".join(str(size) for size in rows)
    return (
        f"The roof in this run: triad {triad.low:.1f} to {triad.high:.1f} GB/s, random rows of "
        f"{width} bytes {gather.low:.1f} to {gather.high:.1f} GB/s."
    )


def _curve_table(curves: list[Curve]) -> list[str]:
    rows = []
    for curve in curves:
        points = [f"{_scaled(x)}: {y:.3g}" for x, y in zip(curve.x, curve.middles(), strict=True)]
        rows.append([curve.title, curve.y_label, "; ".join(points), f"{curve.exponent():.2f}"])
    return _table(["curve", "cost", "median at each size", "exponent"], rows)


def _origin(found: Mapping[str, Result]) -> list[str]:
    rows = []
    for name, result in found.items():
        facts = result.facts
        versions = ", ".join(
            f"{package} {version}" for package, version in facts["versions"].items()
        )
        commit = facts["commit"][:7] + (" with changes" if facts["dirty"] else "")
        load = f"{facts['load'][0]:g}"
        rows.append([name, facts["date"], commit, facts["machine"], load, versions])
    return _table(["benchmark", "date", "commit", "machine", "load at start", "versions"], rows)


def _pictures(found: Mapping[str, Result]) -> dict[str, str]:
    made = {
        f"{name}-{curve.name}": plots.log_log(curve)
        for name, result in found.items()
        for curve in result.curves
    }
    if rows := _ratio_rows(found):
        made["ratios"] = plots.bars("How many times faster than each peer", rows)
    return made


def _ratio_rows(found: Mapping[str, Result]) -> list[tuple[str, Spread, float | None]]:
    """Return the ratios that were asked for, as rows of a bar chart."""
    rows: list[tuple[str, Spread, float | None]] = []
    for bar in BARS:
        measured = bar.find(found)
        if bar.unit == "x" and measured is not None and bar.label:
            rows.append((bar.label, measured, bar.bound))
    return rows


def _times(spread: Spread) -> str:
    return f"{spread.median:.3g}x ({spread.low:.3g} to {spread.high:.3g})"


def _spread(spread: Spread, unit: str) -> str:
    if spread.low == spread.high:
        return f"{spread.median:.3g} {unit}"
    return f"{spread.median:.3g} {unit} ({spread.low:.3g} to {spread.high:.3g})"


def _scaled(value: float) -> str:
    """Return a number with three digits and a letter for thousands, millions or billions."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---"] * len(head)
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
