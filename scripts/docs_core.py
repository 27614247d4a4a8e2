"""Write docs/core_results.md: planted hierarchies and Cora, from the stored measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from docs_results import ROOT, Metrics, earlier_lines, mean_sd, read_metrics, table, values

PATH = ROOT / "docs" / "core_results.md"
PLANTED = {
    "tree-70-20-10": "70 / 20 / 10",
    "tree-50-33-17": "50 / 33 / 17",
    "tree-40-30-30": "40 / 30 / 30",
}
# What was done on Cora, line by line.
CORA = {
    "embed": ["Unsupervised, whole graph, groups 16 and 7, five seeds (`embed`):"],
    "classify": [
        "Five stratified folds of three split seeds, 15 fits (`classify`). The whole graph is",
        "seen, the labels of the test fold never; a tenth of the training labels decides early",
        "stopping. Groups 17 and 7:",
    ],
    "links": [
        "Held-out links, four splits (`links`): a fifth of the edges is tested, a twentieth is",
        "set aside, neither is seen. Cosine of layer-1 vectors; each test edge against 20",
        "non-neighbours of its source; AUC over all pairs together, MRR of the rank among 21:",
    ],
}


def build() -> str:
    """Return the whole page."""
    lines = [
        "# Measured: the core",
        "",
        "<!-- written by scripts/docs_core.py from experiments/results/core.jsonl; do not edit -->",
        "",
        *earlier_lines("core"),
        "What the default preset reaches, from stored result files. Mean ± standard deviation",
        "over runs. Times are not shown: the runs shared a two-core machine with other work. The",
        "defaults were chosen while looking at Cora and at planted graphs of this kind, so these",
        "numbers show what the code does, not how its settings do on a graph nobody has tried.",
        "",
        "Repeat it in a clone of the source (a stopped run goes on where it was). Then `graphham",
        "reproduce results` stores the cells and `make docs-tables` writes this page:",
        "",
        "```sh",
        "graphham reproduce core",
        "```",
        "",
        "## Planted hierarchies",
        "",
        *planted_section(),
        "",
        "## Cora",
        "",
        *cora_section(),
        "",
    ]
    return "\n".join(lines)


def planted_cells() -> Iterator[tuple[str, list[Metrics]]]:
    """Yield the title and the cells of each planted graph that was measured."""
    for name, title in PLANTED.items():
        cells = read_metrics("core", name, "truth")
        if cells is not None:
            yield title, cells


def planted_section() -> list[str]:
    """Return the planted table and how to read it."""
    rows = []
    for title, cells in planted_cells():
        for level in ("fine", "coarse"):
            best = best_smoothing(cells, level)
            rows.append(
                [
                    title,
                    level,
                    mean_sd(cells, level),
                    mean_sd(cells, f"louvain_{level}"),
                    f"{mean_sd(cells, f'kmeans{best}_{level}')} ({best} steps)",
                ]
            )
    head = ["edges fine / coarse / elsewhere, %", "level", "GraphHAM", "Louvain", "k-means"]
    return [
        "2,000 nodes in 3 coarse groups of 4 fine ones, mean degree 12, 240 binary words; ten",
        "seeds per row; no labels; the true number of groups is given to every method. Scores are",
        "NMI with the true groups of the level.",
        "",
        *table(head, rows),
        "",
        "Louvain (scikit-network) sees the links only; it is run on two levels and its resolution",
        "is searched for the true number of groups. K-means sees features averaged over the graph;",
        "of 1 to 4 steps the one with the best mean is shown, chosen in hindsight, which favours",
        "k-means.",
    ]


def cora_section() -> list[str]:
    """Return the Cora tables and their protocols."""
    lines = [
        *cora_part("embed", group_rows),
        *cora_part(
            "classify",
            lambda cells: [
                ["accuracy", mean_sd(cells, "accuracy")],
                ["NMI of level 2 with labels, test nodes", mean_sd(cells, "nmi_2_test")],
                *group_rows(cells)[:-2],
            ],
        ),
        *cora_part(
            "links",
            lambda cells: [
                ["AUC", mean_sd(cells, "auc")],
                ["MRR", mean_sd(cells, "mrr")],
                *group_rows(cells),
            ],
        ),
    ]
    return lines[:-1]


def cora_part(task: str, rows: Callable[[list[Metrics]], list[list[str]]]) -> list[str]:
    """Return a protocol on Cora and its table, or nothing where it was not measured."""
    cells = read_metrics("core", "cora", task)
    if cells is None:
        return []
    return [*CORA[task], "", *table(["number", "value"], rows(cells)), ""]


def group_rows(cells: list[Metrics]) -> list[list[str]]:
    """Return the rows that describe the hierarchy."""
    return [
        ["nesting, decoded groups (1 by construction)", mean_sd(cells, "nesting")],
        ["groups in use, worse level", f"{values(cells, 'used_share').mean():.0%}"],
        ["NMI of level 1 with labels", mean_sd(cells, "nmi_1")],
        ["NMI of level 2 with labels", mean_sd(cells, "nmi_2")],
    ]


def best_smoothing(cells: list[Metrics], level: str) -> int:
    """Return the number of smoothing steps whose k-means is best on average."""
    return max(range(1, 5), key=lambda steps: values(cells, f"kmeans{steps}_{level}").mean())


def outputs() -> dict[Path, str]:
    """Return what this script writes."""
    return {PATH: build()}


if __name__ == "__main__":
    PATH.write_text(build(), "utf-8")
