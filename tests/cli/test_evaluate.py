"""Evaluating and reproducing from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Graphham

SMALL = ("--folds", "2", "--out", "out")


def test_methods_are_listed_with_one_line_each(graphham: Graphham) -> None:
    from graphham.methods.registry import method_names

    seen = graphham("methods")
    assert seen.code == 0
    assert [line.split()[0] for line in seen.out.splitlines()] == method_names()


def test_classify_compares_methods_on_a_users_file(graphham: Graphham, planted_files: Path) -> None:
    arguments = (
        "evaluate", "classify", str(planted_files / "edges.csv"),
        "--features", str(planted_files / "features.csv"),
        "--labels", f"{planted_files / 'nodes.csv'}:topic",
        "--methods", "sgc,logreg", *SMALL,
    )  # fmt: skip
    seen = graphham(*arguments)
    assert (seen.code, seen.err) == (0, "")
    assert "accuracy − sgc" in seen.out
    lines = Path("out/tables/classify-folds.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["method", "sgc", "logreg"]
    cells = sorted(Path("out/cells").rglob("cell.json"))
    assert len(cells) == 4
    record = json.loads(cells[0].read_text())
    assert {"metrics", "chosen", "split", "cost", "versions", "cell"} <= set(record)
    before = {path: path.stat().st_mtime_ns for path in cells}
    again = graphham(*arguments)
    assert again.code == 0
    assert "4 of 4 finished before" in again.out
    assert {path: path.stat().st_mtime_ns for path in cells} == before
    other = graphham("evaluate", "links", "cora", "--methods", "common-neighbors", *SMALL)
    assert other.code == 2
    assert "another graph" in other.err


def test_links_rank_held_out_edges(graphham: Graphham, planted_files: Path) -> None:
    edges = str(planted_files / "edges.csv")
    seen = graphham(
        "evaluate", "links", edges, "--methods", "common-neighbors,adamic-adar,features", "--hard",
        *SMALL,
    )  # fmt: skip
    assert seen.code == 0
    assert "scaled MRR" in seen.out
    assert Path("out/tables/links-hard.tex").is_file()
    # The file has no features: the method that needs them says so, the others go on.
    assert "features: " in seen.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("classify", "cora", "--methods", "gatt"), "gat"),
        (("classify", "cora", "--methods", "smoothed"), "does not serve classify"),
        (("classify", "cora", "--methods", "sgc,sgc"), "twice"),
        (("classify", "cora", "--protocol", "p9"), "p9"),
        (("classify", "cora", "--folds", "1"), "--folds"),
        (("classify", "cora", "--seeds", "a"), "'a'"),
        (("classify", "cora", "--budget", "0"), "--budget"),
        (("classify", "debian", "--protocol", "public_split", "--methods", "sgc"), "public split"),
    ],
)
def test_bad_evaluations_are_one_sentence(
    graphham: Graphham, arguments: tuple[str, ...], reason: str
) -> None:
    seen = graphham("evaluate", *arguments, "--quiet")
    assert seen.code == 2
    assert reason in seen.err
    assert seen.err.startswith("Error: ")
    assert len(seen.err.splitlines()) == 1


def test_bad_reproductions_are_one_sentence(graphham: Graphham) -> None:
    for arguments, reason in (
        (("table7",), "table7"),
        (("table2", "--datasets", "karate"), "karate"),
        (("table2", "--datasets", "youtube"), "planted stand-ins under their own names"),
        (("table2", "table3", "--datasets", "amazon"), "planted stand-ins under their own names"),
        (("table2", "--methods", "gatt"), "gat"),
        (("results",), "no finished cells"),
        (("results", "table2"), "alone"),
    ):
        seen = graphham("reproduce", *arguments)
        assert seen.code == 2
        assert reason in seen.err
        assert len(seen.err.splitlines()) == 1


def test_without_a_clone_reproduce_says_where_to_get_one(
    graphham: Graphham, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import graphham as package

    installed = tmp_path / "lib" / "site-packages" / "graphham" / "__init__.py"
    monkeypatch.setattr(package, "__file__", str(installed))
    # Somebody else's folder of that name is not ours.
    (tmp_path / "experiments").mkdir()
    seen = graphham("reproduce", "table2", "--quick")
    assert seen.code == 2
    assert "source repository" in seen.err
    assert len(seen.err.splitlines()) == 1


def test_the_experiments_run_as_a_module_of_the_clone() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "table9"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "table9" in done.stderr


def test_reproduce_ends_in_results(graphham: Graphham) -> None:
    seen = graphham("reproduce", "table2", "--quick", "--methods", "sgc,logreg", "--out", "results")
    assert (seen.code, seen.err) == (0, "")
    assert "table2-cora-folds.md" in seen.out
    assert graphham("reproduce", "results", "--out", "results").code == 0
    assert "[RESULTS_tables.md](RESULTS_tables.md)" in Path("RESULTS.md").read_text()
    text = Path("RESULTS_tables.md").read_text()
    assert "graphham reproduce table2" in text
    assert "| sgc " in text
