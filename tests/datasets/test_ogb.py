"""The Open Graph Benchmark's products, packed and unpacked, whole and damaged."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphham.datasets import (
    dataset_info,
    load_dataset,
    ogb,
)
from graphham.errors import InputError
from graphham.graph.graph import Graph
from tests.datasets.small_files import (
    PRODUCTS,
    write_products,
)


def check_small_products(graph: Graph) -> None:
    graph.validate()
    assert graph.edge_list().tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    np.testing.assert_array_equal(
        graph.features, np.array([[0.5, -1.25], [1, 2], [3e-2, 4], [5, 6], [7, 8]], np.float32)
    )
    assert graph.features.dtype == np.float32
    assert graph.labels.values() == ["Books", "Toys (2)", "Toys (1)", None, "Toys (2)"]
    assert {k: v.tolist() for k, v in graph.splits.items()} == {
        "train": [0, 2],
        "val": [1],
        "test": [3, 4],
    }
    report = graph.report
    assert (report.rows_read, report.duplicates_merged, report.self_loops_dropped) == (6, 1, 1)
    assert report.isolated == 1


@pytest.mark.parametrize("place", ["products", "ogbn_products", "raw/products", "."])
def test_products_unpacked(place: str, tmp_path: Path) -> None:
    write_products(tmp_path / place, PRODUCTS)
    check_small_products(ogb.load(tmp_path, dataset_info("amazon")))


def test_products_from_the_zip(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/products.zip", "w") as archive:
        for name, text in PRODUCTS.items():
            archive.writestr(f"products/{name}", gzip.compress(text.encode()))
    check_small_products(ogb.load(tmp_path, dataset_info("amazon")))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"raw/num-edge-list.csv.gz": "7\n"}, "edge.csv.gz"),
        ({"raw/node-feat.csv.gz": "1,2\n3,4\n"}, "node-feat.csv.gz"),
        ({"raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,5\n"}, "outside"),
        ({"raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,two\n"}, "edge.csv.gz"),
    ],
)
def test_products_that_do_not_add_up_are_refused(
    change: dict[str, str], named: str, tmp_path: Path
) -> None:
    write_products(tmp_path / "products", PRODUCTS | change)
    with pytest.raises(InputError, match=named):
        ogb.load(tmp_path, dataset_info("amazon"))


def test_products_cut_short_are_refused(tmp_path: Path) -> None:
    write_products(tmp_path / "products", PRODUCTS)
    path = tmp_path / "products/raw/edge.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"edge\.csv\.gz"):
        ogb.load(tmp_path, dataset_info("amazon"))


def test_another_graph_under_a_known_name_is_refused(cache: Path) -> None:
    write_products(cache / "Products/products", PRODUCTS)
    with pytest.raises(InputError, match=r"5 nodes, 4 edges.*2,449,029"):
        load_dataset("amazon")
