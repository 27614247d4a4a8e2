"""Cells are carried over a change only where both trees measure the same."""

import copy
import json
from pathlib import Path

import pytest

from experiments import carry
from experiments.carry import Stored, carried
from experiments.cell_file import read_cells
from graphham.errors import InputError
from graphham.evaluate.cells import Cell


def stored(method="gcn", protocol="folds", fold=0, code="old", split="s", cost=1.0):
    cell = Cell("classify", "cora", protocol, method, fold=fold)
    record = {
        "cell": cell.to_dict(),
        "status": "done",
        "metrics": {"accuracy": 0.8},
        "split": {"fingerprint": split},
        "cost": {"cpu_seconds": cost},
        "versions": {"code": code},
    }
    return Stored("few_labels", record)


@pytest.fixture
def trees(monkeypatch):
    """Two trees: what they answer by tree, question and method; the sampled cells are kept."""
    answers = {
        ("old", "version"): lambda one: "old",
        ("new", "version"): lambda one: "new",
        ("new", "split"): lambda one: "s",
        ("old", "measure"): lambda one: {"accuracy": 0.8},
        ("new", "measure"): lambda one: {"accuracy": 0.8 if one.cell.method == "gcn" else 0.7},
    }
    measured = []

    def ask(tree, what, asked):
        if what == "measure":
            measured.extend((str(tree), one.cell.fold) for one in asked)
        return [answers[str(tree), what](one) for one in asked]

    monkeypatch.setattr(carry, "ask", ask)
    return measured


def test_cells_that_measure_the_same_take_the_present_version(trees):
    cells = [stored(fold=0, cost=9.0), stored(fold=1, cost=1.0)]
    kept, said = carried(Path("old"), Path("new"), cells)
    assert [one.cell.fold for one in kept] == [0, 1]
    assert all(one.record["versions"] == {"code": "new", "carried": "old"} for one in kept)
    assert trees == [("old", 1), ("new", 1)]  # the cheapest, once in either tree
    assert "2 carried" in said[0]


def test_cells_that_moved_stay_old(trees):
    kept, said = carried(Path("old"), Path("new"), [stored("gat")])
    assert kept == []
    assert "stay old" in said[0]


def test_cells_of_another_split_or_of_an_earlier_version_are_not_asked(trees):
    kept, said = carried(
        Path("old"), Path("new"), [stored(fold=0, split="other"), stored(fold=1, code="older")]
    )
    assert kept == []
    assert "1 cells have another split" in said[0]
    assert trees == []


def test_carried_cells_replace_their_lines(tmp_path, trees):
    first, second = stored(fold=0), stored(fold=1, code="older")
    path = tmp_path / "few_labels.jsonl"
    lines = [json.dumps(copy.deepcopy(one.record)) for one in (first, second)]
    path.write_text("\n".join(lines) + "\n")
    kept, _ = carried(Path("old"), Path("new"), [first, second])
    carry.write(tmp_path, kept)
    found = read_cells(path)
    assert found[first.cell.key]["versions"]["carried"] == "old"
    assert found[second.cell.key]["versions"] == {"code": "older"}
    assert len(path.read_text().splitlines()) == 2


def test_a_tree_that_is_none_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="could not tell the version"):
        carry.ask(tmp_path, "version", [stored()])


def test_this_tree_knows_versions_and_splits_of_its_cells():
    (version,) = carry.ask(carry.ROOT, "version", [stored()])
    assert isinstance(version, str)
    assert len(version) == 12
    (split,) = carry.ask(carry.ROOT, "split", [stored()])
    assert len(split) == 12
