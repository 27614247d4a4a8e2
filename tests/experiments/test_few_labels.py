"""Few-label comparisons: entries, random links, resuming, and what the tables say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.cell_file import read_cells
from experiments.few_labels import (
    Entry,
    find_graph,
    main,
    measure_cell,
    tables,
    with_random_links,
)
from experiments.planted_cases import planted_graph
from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.methods.gat import GAT


def test_entries_are_read_as_users_write_them() -> None:
    assert Entry.parse("gcn") == Entry("gcn", "gcn")
    assert Entry.parse("gat:published") == Entry("gat:published", "gat", dict(GAT.published))
    assert Entry.parse("gcn:tuned").budget == 4
    wide = Entry.parse('wide=gcn{"dim": 64, "scaling": "auto"}')
    assert wide == Entry("wide", "gcn", {"dim": 64, "scaling": "auto"})
    mine = Entry.parse('a=b=gat:published{"dim": 8}')
    assert (mine.label, mine.settings["dim"], mine.settings["lr"]) == ("a=b", 8, 0.005)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gcnn", "did you mean 'gcn'"),
        ("gcn:best", "asks for 'best'"),
        ("gcn{dim}", "no JSON"),
        ('gcn{"dime": 3}', "no setting 'dime'"),
        ("adamic-adar", "does not classify"),
    ],
)
def test_entries_that_mean_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Entry.parse(text)


@pytest.mark.parametrize("directed", [False, True])
def test_random_links_are_new_and_as_many_as_asked(directed: bool) -> None:
    draw = np.random.default_rng(0)
    ends = draw.integers(40, size=(100, 2))
    graph = build_graph(ends[:, 0], ends[:, 1], 40, directed=directed, name="mine")
    noisy = with_random_links(graph, 150, 3)
    old, new = (set(map(tuple, g.edge_list().tolist())) for g in (graph, noisy))
    assert old < new
    assert len(new) == len(old) + round(1.5 * len(old))
    assert noisy.name == "mine+150"
    noisy.validate()
    assert noisy.fingerprint() == with_random_links(graph, 150, 3).fingerprint()
    assert noisy.fingerprint() != with_random_links(graph, 150, 4).fingerprint()
    with pytest.raises(InputError, match="no room"):
        with_random_links(graph, 5000, 0)


def test_features_labels_and_splits_outlive_the_noise() -> None:
    plain, noisy = find_graph("partners", 2), find_graph("partners+100", 2)
    assert plain.fingerprint() == planted_graph("partners", 2)[0].fingerprint()
    np.testing.assert_array_equal(plain.features, noisy.features)
    assert noisy.labels is plain.labels
    assert noisy.num_edges == 2 * plain.num_edges
    with pytest.raises(InputError, match="per cent"):
        find_graph("partners+much", 0)


def test_a_cell_is_measured_on_its_draw() -> None:
    entry = Entry.parse("label-propagation")
    record = measure_cell(entry.cell("partners", "5", 1))
    assert record["split"]["train"] == 60
    assert record["split"]["validation"] == 200
    assert record["split"]["test"] == 2004 - 260
    assert 0 < record["metrics"]["accuracy"] < 0.3
    assert record["cost"]["cpu_seconds"] > 0


def test_differences_are_paired_and_pay_for_their_number() -> None:
    entries = [Entry("ours", "graphham"), Entry("a", "gcn"), Entry("b", "gat")]
    noise = [0.00, 0.02, -0.02, 0.01, -0.01]
    gaps = {"ours": [0.0] * 5, "a": [-0.10, -0.11, -0.09, -0.10, -0.10], "b": noise}
    records = {}
    for entry in entries:
        for draw in range(5):
            cell = entry.cell("cora", "5", draw)
            # Draws differ far more than methods: only pairs can tell.
            score = 0.3 + 0.1 * draw + gaps[entry.label][draw]
            records[cell.key] = {
                "status": "done",
                "metrics": {"accuracy": score},
                "cost": {"cpu_seconds": 2.0},
            }
    means, differences = tables(records, entries, ["cora"], ["5"], range(5), "ours")
    assert means.text()[1] == ["ours", "0.500 ± 0.071", "2.0"]
    rows = {row["method"]: row["cora-5"] for row in differences.rows}
    assert rows["a"].startswith("-10.0 (0/5), p ")
    assert float(rows["a"].split("p ")[1]) < 1e-4
    assert rows["b"] == "+0.0 (2/5), p 1"
    assert "all 2 differences" in differences.notes[0]
    assert "finished, 5 of 5" in means.notes[0]
    # One draw of ten is no mean with an error of zero.
    del records[entries[0].cell("cora", "5", 0).key]
    some = tables(records, entries, ["cora"], ["5"], range(4, 14), "ours")[0]
    assert some.text()[1][1] == "0.700"
    assert "finished, 1 of 10" in some.notes[0]
    assert "4 to 5 of 5" in tables(records, entries, ["cora"], ["5"], range(5), "ours")[0].notes[0]
    assert len(tables(records, entries[1:], ["cora"], ["5"], range(5), "ours")) == 1
    gappy = tables(records, entries, ["cora", "pubmed"], ["5"], range(5), "ours")
    assert [row.get("pubmed-5") for row in gappy[0].rows] == [None] * 3


def test_the_command_measures_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cells.jsonl"
    words = ["--methods", "label-propagation", 'x=label-propagation{"alpha": 0.5}']
    words += ["--graphs", "partners", "--labels", "5", "--noise", "0", "50", "--draws", "1"]
    words += ["--file", str(path), "--reference", "x"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "partners+50, 5" in shown
    assert "Differences to x" in shown
    assert len(path.read_text().splitlines()) == 4
    graphs = {record["cell"]["graph"] for record in read_cells(path).values()}
    assert graphs == {"partners", "partners+50"}
    assert main([*words, "--show"]) == 0
    assert len(path.read_text().splitlines()) == 4
    assert main(["--methods", "gcnn"]) == 2
    assert "did you mean" in capsys.readouterr().err


def test_folds_and_links_are_split_by_the_number_of_the_draw() -> None:
    entry = Entry.parse("graphham")
    many, links = entry.cell("cora", "folds", 7), entry.cell("cora", "links", 3)
    assert (many.kind, many.protocol, many.seed, many.fold) == ("classify", "folds", 1, 2)
    assert (links.kind, links.protocol, links.seed, links.fold) == ("links", "links", 0, 3)


@pytest.mark.parametrize("labels", ["0", "some", "-5"])
def test_labels_that_are_none_are_refused(labels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--methods", "gcn", "--labels", labels, "--show"]) == 2
    assert labels in capsys.readouterr().err
