"""The npz files of gnn-benchmark are read without their pickled parts."""

from pathlib import Path

import numpy as np

from graphham.datasets import (
    load_dataset,
)


def test_an_original_npz_with_pickled_names_is_read_without_them(
    shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "Photo/raw/amazon_electronics_photo.npz"
    with np.load(source) as archive:
        parts = dict(archive)
    names = np.array([{"a": 1}] * parts["attr_shape"][1], dtype=object)
    target = tmp_path / "Photo/raw"
    target.mkdir(parents=True)
    np.savez(target / source.name, **parts, attr_names=names)
    photo = load_dataset("amazon-photo", root=tmp_path)
    assert photo.num_edges == 119_081
    assert photo.feature_names[3] == "w3"
