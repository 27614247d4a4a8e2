"""What the catalog states about the datasets is what their files hold."""

from pathlib import Path

import pytest

from graphham.datasets import (
    dataset_info,
    load_dataset,
    table1_rows,
)
from graphham.errors import InputError
from tests.reference.processes import imported

# nodes, edges, raw entries, isolated, components, clustering: from the staged data's README
COUNTS = {
    "citeseer": (3327, 4552, 4732, 48, 438, 0.1415),
    "pubmed": (19717, 44324, 44338, 0, 1, 0.0602),
    "facebook": (22470, 170823, 171002, 0, 1, 0.3597),
    "amazon-computers": (13752, 245861, 287209, 281, 314, 0.3441),
    "amazon-photo": (7650, 119081, 143663, 115, 136, 0.4040),
    "wordnet": (117659, 183789, 183789, 1009, 1377, 0.0483),
}


@pytest.mark.parametrize("name", COUNTS)
def test_staged_datasets_have_the_known_counts(name: str, data: Path) -> None:
    graph = load_dataset(name, progress=False).validate()
    (row,) = table1_rows([name])
    report = graph.report
    seen = (graph.num_nodes, graph.num_edges, report.rows_read, report.isolated, report.components)
    assert (*seen, round(row["clustering"], 4)) == COUNTS[name]
    assert report.rows_read - report.duplicates_merged - report.self_loops_dropped == row["edges"]


@pytest.mark.parametrize(("typed", "meant"), [("Citeseer", "citeseer"), ("wordnet3", "wordnet")])
def test_an_unknown_name_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"'{typed}'.*did you mean '{meant}'"):
        load_dataset(typed)


def test_a_hopeless_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="cora, debian, citeseer"):
        dataset_info("qqqq")


def test_names_and_tables_need_no_heavy_imports() -> None:
    code = "import graphham.datasets as d; d.list_rows(); d.info_rows('amazon')"
    assert imported(code, ("numpy", "scipy", "numba", "torch", "pyarrow")) == []
