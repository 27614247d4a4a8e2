"""Put the measured results between the markers of README.md."""

from __future__ import annotations

from pathlib import Path

from docs_results import RESULTS, ROOT, table

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
    from experiments.first_screen import rank_sentences
    from experiments.results_page import headline, stored_unseen

    unseen = stored_unseen(RESULTS)
    rows = [
        [row["case"], f"{row['ours']:.3f}", f"{row['theirs']:.3f} ({row['best']})"]
        for row in headline(RESULTS)
    ]
    return [
        "GraphHAM by itself beside the best of the other methods, case by case. Few labels: mean "
        "over draws of labels; coarse groups: found without labels, adjusted mutual information "
        "with the classes or the planted groups, everybody asked for the same number. The model "
        "was made while looking at Cora, Citeseer and planted graphs, so a new graph may do worse.",
        "",
        *table(["case", "GraphHAM", "best other"], rows),
        "",
        *([" ".join(rank_sentences(unseen)), ""] if unseen.places else []),
        "[RESULTS.md](RESULTS.md) asks and answers: is it accurate, are the groups real, do they "
        "help, can its reasons be trusted, what does it cost, and where does it lose. "
        "`graphham reproduce results` writes it from the stored cells.",
    ]


def outputs() -> dict[Path, str]:
    """Return what this script writes."""
    return {PATH: build(PATH.read_text("utf-8"))}


if __name__ == "__main__":
    PATH.write_text(build(PATH.read_text("utf-8")), "utf-8")
