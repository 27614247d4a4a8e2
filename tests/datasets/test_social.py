"""The YouTube graph from each of its forms."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphham.datasets import (
    dataset_info,
    social,
)
from graphham.errors import InputError
from tests.datasets.small_files import (
    EDGES,
    check_small_youtube,
    youtube_tables,
)


@pytest.mark.parametrize("place", ["raw", "raw/data", "raw/YouTube-dataset/data"])
def test_youtube_from_csv_files(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    for name, text in youtube_tables().items():
        (folder / name).write_text(text)
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def test_youtube_from_its_archive(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/YouTube-dataset.zip", "w") as archive:
        archive.writestr("__MACOSX/YouTube-dataset/data/edges.csv", "junk")
        for name, text in youtube_tables().items():
            archive.writestr(f"YouTube-dataset/data/{name}", text)
        archive.writestr("__MACOSX/YouTube-dataset/data/._edges.csv", "junk")
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def test_youtube_from_the_matlab_file(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    ends = np.array([[int(v) for v in line.split(",")] for line in EDGES.split()]) - 1
    half = sp.csc_matrix((np.ones(5), ends.T), shape=(8, 8))
    group = sp.csc_matrix(([1.0, 1.0, 1.0], ([0, 0, 6], [1, 0, 1])), shape=(8, 3))
    path = tmp_path / "raw/youtube.mat"
    scipy.io.savemat(path, {"network": half + half.T, "group": group}, do_compression=True)
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def test_youtube_with_a_broken_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name, text in (youtube_tables() | {"edges.csv": "1,2\n3,x\n"}).items():
        (tmp_path / "raw" / name).write_text(text)
    with pytest.raises(InputError, match=r"edges\.csv"):
        social.load(tmp_path, dataset_info("youtube"))
    (tmp_path / "raw/edges.csv").write_text(EDGES)
    (tmp_path / "raw/group-edges.csv").unlink()
    with pytest.raises(InputError, match=r"has no group-edges\.csv"):
        social.load(tmp_path, dataset_info("youtube"))
