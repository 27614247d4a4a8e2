"""Read ogbn-products as the Open Graph Benchmark packs it: headerless gzipped CSV files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.csr import count_components, pair_keys, rows_from_keys
from graphham.graph.graph import Graph, Labels, ReadReport
from graphham.graph.ids import NodeIds

_SPLITS = {"train": "train", "val": "valid", "test": "test"}
_BLOCK_BYTES = 1 << 24


class _Files:
    """The files of the benchmark, in its zip or unpacked."""

    def __init__(self, place: Path | zipfile.ZipFile, prefix: str) -> None:
        self._place = place
        self._prefix = prefix

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes] | None]:
        if isinstance(self._place, zipfile.ZipFile):
            try:
                member = self._place.open(self._prefix + name)
            except KeyError:
                yield None
                return
            with member:
                yield member
        elif (self._place / name).is_file():
            with (self._place / name).open("rb") as stream:
                yield stream
        else:
            yield None


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read edges, features, labels and the sales-ranking split.

    Text is decoded in blocks straight into arrays, so that memory stays near the size of the
    result: about 1 GB of features and 0.5 GB of links for the full graph, and 1.5 GB more while
    links are sorted.
    """
    packed = folder / info.files[0].path
    if packed.is_file():
        try:
            with zipfile.ZipFile(packed) as archive:
                return _read(_Files(archive, _prefix(archive, packed)), packed, info)
        except (zipfile.BadZipFile, EOFError) as error:
            raise InputError(f"{packed} is not a readable zip archive; fetch it again") from error
    for other in info.also:
        if (folder / other).is_file():
            base = (folder / other).parent.parent
            return _read(_Files(base, ""), base, info)
    raise InputError(f"{folder} does not hold the files of {info.name!r}; fetch it again")


def _prefix(archive: zipfile.ZipFile, path: Path) -> str:
    ending = "raw/edge.csv.gz"
    for member in archive.namelist():
        if member.endswith(ending) and "__MACOSX" not in member:
            return member.removesuffix(ending)
    raise InputError(f"{path} has no {ending}; it is not an Open Graph Benchmark archive")


def _read(files: _Files, origin: Path, info: DatasetInfo) -> Graph:
    num_nodes = int(_numbers(files, "raw/num-node-list.csv.gz", origin, pa.int64())[0, 0])
    num_links = int(_numbers(files, "raw/num-edge-list.csv.gz", origin, pa.int64())[0, 0])
    if not 0 < num_nodes < 2**31:
        raise InputError(f"{origin} states {num_nodes:,} nodes, which cannot be right")
    links = _numbers(files, "raw/edge.csv.gz", origin, pa.int32(), num_links)
    _expect(links.shape == (num_links, 2), origin, "raw/edge.csv.gz", f"{num_links:,} pairs")
    if num_links and not 0 <= int(links.min()) <= int(links.max()) < num_nodes:
        raise InputError(f"{origin}: an edge names a node outside 0..{num_nodes - 1}")
    loops = int(np.count_nonzero(links[:, 0] == links[:, 1]))
    indptr, indices = rows_from_keys(pair_keys(links[:, 0], links[:, 1], num_nodes), num_nodes)
    del links

    features = _numbers(files, "raw/node-feat.csv.gz", origin, pa.float32(), num_nodes)
    _expect(len(features) == num_nodes, origin, "raw/node-feat.csv.gz", f"{num_nodes:,} rows")
    values = _numbers(files, "raw/node-label.csv.gz", origin, pa.float64(), num_nodes)
    _expect(values.shape == (num_nodes, 1), origin, "raw/node-label.csv.gz", "a label per node")
    # OGB leaves unknown labels empty, which reads as NaN.
    codes = np.where(np.isnan(values[:, 0]), -1, values[:, 0]).astype(np.int32)
    return Graph(
        indptr=indptr,
        indices=indices,
        ids=NodeIds.range(num_nodes),
        features=features,
        feature_names=[f"x{i}" for i in range(features.shape[1])],
        labels=Labels(_class_names(files, int(codes.max()) + 1), codes=codes),
        name=info.name,
        splits=_splits(files, origin),
        report=ReadReport(
            source=info.source,
            rows_read=num_links,
            duplicates_merged=num_links - loops - len(indices) // 2,
            self_loops_dropped=loops,
            isolated=int(np.count_nonzero(np.diff(indptr) == 0)),
            components=count_components(indptr, indices),
        ),
    )


def _expect(holds: bool, origin: Path, name: str, what: str) -> None:
    if not holds:
        raise InputError(f"{name} in {origin} does not hold {what}; fetch the dataset again")


def _splits(files: _Files, origin: Path) -> dict[str, npt.NDArray[np.int64]]:
    splits = {}
    for name, file in _SPLITS.items():
        path = f"split/sales_ranking/{file}.csv.gz"
        with files.open(path) as stream:
            is_there = stream is not None
        if is_there:
            splits[name] = np.sort(_numbers(files, path, origin, pa.int64())[:, 0])
    return splits


def _class_names(files: _Files, count: int) -> tuple[Any, ...]:
    """Return the product categories of the mapping folder, or numbers where it is missing."""
    plain = tuple(range(count))
    with files.open("mapping/labelidx2productcategory.csv.gz") as stream:
        if stream is None:
            return plain
        try:
            table = pyarrow.csv.read_csv(pa.input_stream(stream, compression="gzip"))
            pairs = zip(table[0].to_pylist(), table[1].to_pylist(), strict=True)
            names = {int(code): str(name) for code, name in pairs}
        except (pa.ArrowInvalid, OSError, ValueError, IndexError):
            return plain
    # Some categories share a name or have none; the number keeps them apart.
    listed = [names.get(code) or f"class {code}" for code in range(count)]
    return tuple(
        f"{name} ({code})" if listed.count(name) > 1 else name for code, name in enumerate(listed)
    )


def _numbers(
    files: _Files, name: str, origin: Path, kind: pa.DataType, rows: int = 1
) -> npt.NDArray[Any]:
    """Return a headerless gzipped CSV of numbers as one ``(rows, columns)`` array."""
    with files.open(name) as stream:
        if stream is None:
            raise InputError(f"{origin} has no {name}; fetch the dataset again")
        try:
            text = pa.input_stream(stream, compression="gzip")
            result = np.empty((rows, 0), dtype=kind.to_pandas_dtype())
            filled = 0
            for batch in _batches(text, kind):
                if filled == 0:
                    result = np.empty((rows, batch.num_columns), dtype=result.dtype)
                if filled + len(batch) > len(result):
                    result = np.resize(result, (2 * (filled + len(batch)), batch.num_columns))
                for at, column in enumerate(batch.columns):
                    if column.null_count and not pa.types.is_floating(kind):
                        raise ValueError("an empty field")
                    result[filled : filled + len(batch), at] = column.to_numpy(zero_copy_only=False)
                filled += len(batch)
        except (pa.ArrowInvalid, OSError, EOFError, ValueError) as error:
            raise InputError(f"{name} in {origin} is damaged ({error})") from error
    return result[:filled]


def _batches(text: Any, kind: pa.DataType) -> Iterator[pa.RecordBatch]:
    """Decode CSV text block by block, every column as ``kind``."""
    head = text.read(1 << 16)
    columns = head.split(b"\n", 1)[0].count(b",") + 1 if head else 0
    if not columns:
        return
    names = [f"c{i}" for i in range(columns)]
    reader = pyarrow.csv.open_csv(
        pa.PythonFile(_PrefixedStream(head, text), mode="r"),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
        # An empty line is a missing label, not nothing.
        parse_options=pyarrow.csv.ParseOptions(ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, kind), null_values=["", "nan", "NaN"]
        ),
    )
    yield from reader


class _PrefixedStream:
    """A stream whose first bytes were already read to count its columns."""

    def __init__(self, head: bytes, text: Any) -> None:
        self._head = head
        self._text = text
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if self._head:
            piece, self._head = (
                (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            )
            return piece if size >= 0 else piece + self._text.read()
        data: bytes = self._text.read(size) if size >= 0 else self._text.read()
        return data

    def close(self) -> None:
        self.closed = True
