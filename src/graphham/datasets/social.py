"""Read the YouTube graph: the CSV archive of its repository, or the MATLAB file DeepWalk used."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import scipy.io
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.csr import count_components, pair_keys, rows_from_keys
from graphham.graph.graph import Graph, Labels, ReadReport
from graphham.graph.ids import NodeIds


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read whichever form is there; a node without a group has unknown labels.

    The archive holds ``nodes.csv`` (one id a line), ``groups.csv``, ``edges.csv`` and
    ``group-edges.csv`` (node, group), all without headers and counted from 1.
    """
    matrix = folder / "raw" / "youtube.mat"
    archive = folder / info.files[0].path
    if archive.is_file():
        return _from_archive(archive, info)
    for other in info.also:
        if other.endswith("edges.csv") and (folder / other).is_file():
            return _from_tables(_Folder((folder / other).parent), info)
    return _from_matlab(matrix, info)


class _Folder:
    """CSV files beside each other."""

    def __init__(self, path: Path) -> None:
        self.origin = str(path)
        self._path = path

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        return path.read_bytes() if path.is_file() else None


class _Archive:
    """The same files as members of a zip, wherever in it they lie."""

    def __init__(self, archive: zipfile.ZipFile, origin: str) -> None:
        self.origin = origin
        self._archive = archive
        # macOS leaves shadow files of the same names in archives it packs.
        self._members = {
            member.rsplit("/", 1)[-1]: member
            for member in archive.namelist()
            if "__MACOSX" not in member
        }

    def read(self, name: str) -> bytes | None:
        member = self._members.get(name)
        return self._archive.read(member) if member else None


def _from_archive(path: Path, info: DatasetInfo) -> Graph:
    try:
        with zipfile.ZipFile(path) as archive:
            return _from_tables(_Archive(archive, str(path)), info)
    except (zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} is not a readable zip archive; fetch it again") from error


def _from_tables(place: _Folder | _Archive, info: DatasetInfo) -> Graph:
    edges = _table(place, "edges.csv", 2)
    members = _table(place, "group-edges.csv", 2)
    listed = [_table(place, name, 1, optional=True) for name in ("nodes.csv", "groups.csv")]
    ids = np.unique(_flat([*edges, members[0], *listed[0]]))
    groups = np.unique(_flat([members[1], *listed[1]]))
    source, target, owner = (np.searchsorted(ids, column) for column in (*edges, members[0]))
    group = np.searchsorted(groups, members[1])
    return _graph(source, target, ids, owner, group, groups.tolist(), info)


def _flat(columns: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.asarray(column) for column in columns])


def _table(
    place: _Folder | _Archive, name: str, columns: int, *, optional: bool = False
) -> list[npt.NDArray[np.int64]]:
    """Return the first columns of a headerless CSV of integers."""
    content = place.read(name)
    if content is None:
        if optional:
            return []
        raise InputError(f"{place.origin} has no {name}; fetch the dataset again")
    names = [f"c{i}" for i in range(columns)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(content),
            read_options=pyarrow.csv.ReadOptions(column_names=names),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, "int64")),
        )
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{name} in {place.origin} is not {columns} columns of whole numbers ({error})"
        ) from error
    if any(table[c].null_count for c in names):
        raise InputError(f"{name} in {place.origin} has an empty field; fetch the dataset again")
    return [table[c].to_numpy() for c in names]


def _from_matlab(path: Path, info: DatasetInfo) -> Graph:
    """Read ``network`` and ``group``; ids are MATLAB's row numbers, from 1."""
    try:
        stored = scipy.io.loadmat(path, variable_names=["network", "group"])
        network, group = sp.coo_matrix(stored["network"]), sp.coo_matrix(stored["group"])
    except (KeyError, TypeError, ValueError, NotImplementedError, OSError) as error:
        raise InputError(f"{path} is not a MATLAB file with network and group") from error
    ids = np.arange(1, network.shape[0] + 1)
    names = list(range(1, group.shape[1] + 1))
    graph = _graph(network.row, network.col, ids, group.row, group.col, names, info)
    assert graph.report is not None
    # The matrix is symmetric: it lists every link twice.
    links = graph.report.rows_read // 2
    report = replace(
        graph.report, rows_read=links, duplicates_merged=max(links - graph.num_edges, 0)
    )
    return replace(graph, report=report)


def _graph(
    source: npt.NDArray[Any],
    target: npt.NDArray[Any],
    ids: npt.NDArray[np.int64],
    owner: npt.NDArray[Any],
    group: npt.NDArray[Any],
    classes: list[int],
    info: DatasetInfo,
) -> Graph:
    num_nodes = len(ids)
    indptr, indices = rows_from_keys(pair_keys(source, target, num_nodes), num_nodes)
    loops = int(np.count_nonzero(source == target))
    matrix = sp.csr_matrix(
        (np.ones(len(owner), dtype=bool), (owner, group)), shape=(num_nodes, len(classes))
    )
    matrix.sum_duplicates()
    return Graph(
        indptr=indptr,
        indices=indices,
        ids=NodeIds(ids.astype(np.int64)),
        labels=Labels(tuple(classes), matrix=matrix),
        name=info.name,
        report=ReadReport(
            source=info.source,
            rows_read=len(source),
            duplicates_merged=len(source) - loops - len(indices) // 2,
            self_loops_dropped=loops,
            isolated=int(np.count_nonzero(np.diff(indptr) == 0)),
            components=count_components(indptr, indices),
        ),
    )
