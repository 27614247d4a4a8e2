"""Put the measured results between the markers of README.md."""

from __future__ import annotations

from pathlib import Path

from docs_core import best_smoothing, planted_cells
from docs_results import ROOT, earlier_lines, mean_sd, read_metrics, table, values

PATH = ROOT / "README.md"
BEGIN = "<!-- results: written by scripts/docs_readme.py -->"
END = "<!-- end of results -->"


def build(text: str) -> str:
    """Return the README with its results section written anew."""
    head, found, rest = text.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"README.md needs the lines {BEGIN!r} and {END!r}")
    return "\n".join([head + BEGIN, "", *section(), "", END]) + tail


def section() -> list[str]:
    """Return the lines of the results section."""
    return [
        *earlier_lines("core"),
        "Default preset, mean ± standard deviation over runs. The defaults were chosen while "
        "looking at Cora and at planted graphs, so a new graph may do worse. "
        "`graphham reproduce core` in a clone of the source repeats them; "
        "[docs/core_results.md](docs/core_results.md) has the protocols and more numbers.",
        "",
        "Planted hierarchies (2,000 nodes, 3 x 4 groups, ten seeds), NMI with the true groups, "
        "fine / coarse:",
        "",
        *planted(),
        "",
        "Cora:",
        "",
        *cora(),
        "",
        "The paper does not say which split, which candidates or which share of links its numbers "
        "come from, so the last column is no like-for-like comparison; "
        "[docs/ambiguities.md](docs/ambiguities.md) (A7-A9) tells what is known.",
    ]


def planted() -> list[str]:
    """Return the planted table, one row per difficulty."""
    rows = []
    for title, cells in planted_cells():
        columns = [("fine", "coarse"), ("louvain_fine", "louvain_coarse")]
        columns.append(
            (
                f"kmeans{best_smoothing(cells, 'fine')}_fine",
                f"kmeans{best_smoothing(cells, 'coarse')}_coarse",
            )
        )
        shown = [" / ".join(f"{values(cells, n).mean():.3f}" for n in pair) for pair in columns]
        rows.append([title, *shown])
    head = [
        "edges inside fine / inside coarse / elsewhere, %",
        "GraphHAM",
        "two-level Louvain (links only)",
    ]
    return table([*head, "k-means on smoothed features (best of 1-4 steps)"], rows)


def cora() -> list[str]:
    """Return the Cora table beside the paper's numbers."""
    rows = []
    embed = read_metrics("core", "cora", "embed")
    if embed is not None:
        used = f"{values(embed, 'used_share').mean():.0%} of groups in use"
        rows += [
            ["unsupervised, 5 seeds", "NMI of level 2 with the labels", mean_sd(embed, "nmi_2")],
            ["", "nesting of the decoded groups", f"{mean_sd(embed, 'nesting')}, {used}"],
        ]
    classify = read_metrics("core", "cora", "classify")
    if classify is not None:
        rows.append(
            ["classification, 3 x 5 folds", "accuracy", mean_sd(classify, "accuracy"), "0.853"]
        )
    links = read_metrics("core", "cora", "links")
    if links is not None:
        rows.append(
            ["20% of links held out, 4 splits", "AUC, layer 1", mean_sd(links, "auc"), "0.869"]
        )
    padded = [[*row, ""][:4] for row in rows]
    return table(["task", "number", "here", "paper"], padded)


def outputs() -> dict[Path, str]:
    """Return what this script writes."""
    return {PATH: build(PATH.read_text("utf-8"))}


if __name__ == "__main__":
    PATH.write_text(build(PATH.read_text("utf-8")), "utf-8")
