"""The datasets inside the package are the graphs that people know."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from graphham.datasets import (
    dataset_info,
    load_dataset,
    planetoid,
)
from graphham.datasets.packaged import read_parts


def test_embedded_cora_is_planetoid_cora(shared_data: Path) -> None:
    info = replace(dataset_info("citeseer"), name="cora", prefix="cora", class_names=())
    raw = planetoid.load(shared_data / "Cora", info)
    ours = load_dataset("cora").validate()
    np.testing.assert_array_equal(ours.indptr, raw.indptr)
    np.testing.assert_array_equal(ours.indices, raw.indices)
    assert (ours.features != raw.features).nnz == 0
    np.testing.assert_array_equal(ours.labels.codes, raw.labels.codes)
    for name in ("train", "val", "test"):
        np.testing.assert_array_equal(ours.splits[name], raw.splits[name])
    assert ours.report.rows_read == raw.report.rows_read == 5429


def test_embedded_cora_has_the_papers_own_ids() -> None:
    cora = load_dataset("cora")
    assert cora.ids.kind == "integer"
    assert cora.ids.first_duplicate() is None
    # From the original citation list: 35 is cited by 1033; the first paper is on neural networks.
    assert cora.ids.row(1033) in cora.neighbors(cora.ids.row(35))
    assert cora.labels.values()[cora.ids.row(31336)] == "Neural Networks"
    assert cora.labels.values()[cora.ids.row(35)] == "Genetic Algorithms"


def test_embedded_debian_is_the_map_debian_users_know() -> None:
    debian = load_dataset("debian").validate()
    info = dataset_info("debian")
    found = (debian.num_nodes, debian.num_edges, len(debian.labels.classes))
    assert found == (info.nodes, info.edges, info.classes)
    row = debian.ids.row("python3-numpy")
    assert debian.labels.values()[row] == "python"
    assert "Python 3" in debian.titles[row]
    assert debian.ids.row("python3-scipy") in debian.neighbors(row)
    described = {debian.feature_names[c] for c in debian.features[row].indices}
    assert {"array", "numpy", "implemented-in::python"} <= described
    assert info.features.startswith(f"{debian.num_features:,} ")
    assert "bookworm" in debian.report.source


def test_embedded_files_are_small_and_free_of_pickles() -> None:
    folder = Path(planetoid.__file__).parent / "embedded"
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.npz*")}
    assert sizes["cora.npz"] < 100_000
    assert sizes["debian.npz.xz"] < 5_000_000
    for name in ("cora", "debian"):
        assert all(part.dtype.kind != "O" for part in read_parts(name).values())
