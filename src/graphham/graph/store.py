"""A graph on disk that opens instantly: plain arrays, mapped into memory when they are touched.

A store is a folder. ``store.json`` names the format, its version, the counts and every file with
its size and checksum; arrays are ``.npy`` files and text columns Arrow files, so other tools can
read them. A store is written beside its final place and renamed, so it is whole or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, Part, ReadReport
from graphham.graph.ids import NodeIds
from graphham.graph.integrity import CheckedReader, DamagedFileError
from graphham.system.atomic import sync
from graphham.system.checksums import CheckedFile, check_files, is_intact, sealed
from graphham.system.disk_room import is_full, naming_full_disk, reason_of
from graphham.system.memory_limit import is_short
from graphham.system.scratch import publish, scratch_beside
from graphham.version import __version__

FORMAT = "graphham-store"
# Since version 2 the manifest carries a checksum of its own.
VERSION = 2
_SEALED_SINCE = 2
MANIFEST = "store.json"
_CHUNK = 1 << 22
_ADVICE = "ingest the graph again"


class TextColumn(Sequence[str]):
    """A list of texts that stays on disk until an item is asked for."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, item: int) -> str: ...
    @overload
    def __getitem__(self, item: slice) -> list[str]: ...
    def __getitem__(self, item: int | slice) -> str | list[str]:
        if isinstance(item, slice):
            return [self[i] for i in range(*item.indices(len(self)))]
        value: str = self._values[int(item)].as_py()
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder written by :func:`write_store`."""
    manifest = Path(path) / MANIFEST
    try:
        return manifest.is_file() and FORMAT in manifest.read_text(encoding="utf-8")[:4096]
    except (OSError, UnicodeDecodeError):
        return False


def holds_parts(path: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like one that ``graphham split`` wrote: stores named ``part-N``."""
    folder = Path(path)
    return folder.is_dir() and any(folder.glob(f"part-*/{MANIFEST}"))


def write_store(graph: Graph, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Write a graph as a store and return its folder.

    Args:
        graph: The graph; arrays larger than memory are copied piece by piece.
        path: The folder to make.
        overwrite: Replace an existing store (never anything else).

    Raises:
        InputError: The path exists, or its folder cannot be written to.
    """
    folder = Path(path).expanduser()
    refuse_taken(folder, overwrite)
    graph.require_whole().validate()
    advice = "nothing was kept, so make room or choose another --out and run the command again"
    with (
        scratch_beside(folder) as scratch,
        naming_full_disk(folder, store_bytes(graph), advice),
    ):
        try:
            temporary = scratch / "store"
            temporary.mkdir()
            StoreWriter(temporary).write(graph)
            refuse_taken(folder, overwrite)
            publish(temporary, folder)
        except OSError as error:
            if is_full(error):
                raise
            raise InputError(
                f"cannot write {folder}: {reason_of(error)}; nothing was kept"
            ) from None
    return folder


def store_bytes(graph: Graph) -> int:
    """Return about how many bytes a store of the graph takes."""
    matrix: Any = graph.features
    parts: list[Any] = [graph.indptr, graph.indices, graph.weights]
    if matrix is not None:
        is_sparse = hasattr(matrix, "indptr")
        parts += [matrix.indptr, matrix.indices, matrix.data] if is_sparse else [matrix]
    known = sum(int(part.nbytes) for part in parts if part is not None)
    # Ids and titles are not measured: reading a mapped column of titles would cost more than it
    # is worth, and a line of text per node is the usual size.
    return known + graph.num_nodes * (16 + 64 * (graph.titles is not None))


def open_store(path: str | os.PathLike[str], verify: bool = False, advice: str = _ADVICE) -> Graph:
    """Open a store; every array stays on disk.

    What is used as an index (row bounds, neighbours, text offsets, labels) is read once and checked
    before; of a large store that is remembered, so that the next time nothing is read.

    Args:
        path: A folder written by :func:`write_store`.
        verify: Also read every other file and compare its checksum.
        advice: What to do about a damaged store, in words.

    Raises:
        InputError: Not a store, written by a newer version, or damaged.
    """
    folder = Path(path).expanduser()
    part = read_part(folder)
    if part is not None:
        raise InputError(
            f"{folder} is part {part.number} of {part.count} of a split store; fit the folder "
            f"above it with --processes {part.count}"
        )
    return open_any(folder, verify, advice)


def open_any(folder: Path, verify: bool = False, advice: str = _ADVICE) -> Graph:
    """Open a store, or one part of a split one, as :func:`open_store` does."""
    manifest = read_manifest(folder)
    check_files(folder, manifest["files"], verify, advice)
    try:
        return _Opener(folder, manifest).open()
    except DamagedFileError as error:
        raise InputError(f"the store {folder} is damaged: {error}; {advice}") from None
    except (KeyError, TypeError, ValueError, IndexError, OSError, pa.ArrowException) as error:
        if isinstance(error, InputError) or is_short(error):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"the store {folder} is damaged ({reason}); {advice}") from None


def verify_store(path: str | os.PathLike[str]) -> int:
    """Check every checksum of a store and return the number of bytes read."""
    folder = Path(path).expanduser()
    files = read_manifest(folder)["files"]
    check_files(folder, files, verify=True)
    return sum(int(entry["bytes"]) for entry in files.values())


def refuse_taken(
    folder: Path,
    overwrite: bool,
    kind: str = "a store",
    is_ours: Callable[[Path], bool] = is_store,
) -> None:
    """Refuse a place that holds something, unless it is one of ours that may be replaced.

    Args:
        folder: Where something is to be written.
        overwrite: Whether the user allows to replace what is of the same kind.
        kind: What is going to be written, in words.
        is_ours: Whether a folder holds something of that kind.
    """
    if not folder.name:
        raise InputError(f"{str(folder)!r} is not a folder name; say where to write {kind}")
    if not folder.exists() and not folder.is_symlink():
        return
    if not overwrite:
        raise InputError(f"{folder} exists already; give another name or remove it first")
    if not is_ours(folder):
        raise InputError(
            f"{folder} exists and is not {kind}, so it is not replaced; remove it first"
        )


class StoreWriter:
    """Writes the files of one store and the manifest last."""

    def __init__(self, folder: Path, part: Part | None = None) -> None:
        self.folder, self.part = folder, part
        self.files: dict[str, dict[str, Any]] = {}

    def write(self, graph: Graph) -> None:
        """Write every part a graph has."""
        self._array("indptr", graph.indptr)
        own = None
        if self.part is not None:
            own = (int(graph.indptr[self.part.first]), int(graph.indptr[self.part.last]))
        self._array("indices", graph.indices, own)
        if graph.weights is not None:
            self._array("weights", graph.weights)
        if graph.ids.kind == "integer":
            self._array("ids", graph.ids.to_arrow().to_numpy())
        else:
            self._texts("ids", graph.ids.to_arrow())
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "graphham_version": __version__,
            "name": graph.name,
            "directed": graph.directed,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "ids": graph.ids.kind,
            "features": self._features(graph),
            "labels": self._labels(graph.labels),
            "splits": sorted(graph.splits),
            "report": None if graph.report is None else asdict(graph.report),
        }
        if self.part is not None:
            manifest["part"] = asdict(self.part)
        for number, name in enumerate(manifest["splits"]):
            self._array(f"split_{number}", graph.splits[name])
        if graph.titles is not None:
            self._texts("titles", graph.titles)
        manifest["files"] = self.files
        with CheckedFile(self.folder / MANIFEST) as file:
            file.write((json.dumps(sealed(manifest), indent=1) + "\n").encode())
            file.finish()
        sync(self.folder)

    def _features(self, graph: Graph) -> dict[str, Any] | None:
        if graph.features is None:
            return None
        if graph.feature_names is not None:
            self._texts("feature_names", graph.feature_names)
        matrix: Any = graph.features
        if not sp.issparse(matrix):
            own = None if self.part is None else (self.part.first, self.part.last)
            self._array("features", matrix, own)
            return {
                "layout": "dense",
                "num_features": graph.num_features,
                "dtype": str(matrix.dtype),
            }
        matrix = _canonical(matrix)
        # SciPy opens parts of equal index type without reading them; mixed types make it copy.
        small = max(matrix.nnz, matrix.shape[1]) < 2**31
        kind = np.int32 if small else np.int64
        self._array("features_data", matrix.data)
        self._array("features_indices", matrix.indices.astype(kind, copy=False))
        self._array("features_indptr", matrix.indptr.astype(kind, copy=False))
        return {"layout": "csr", "num_features": graph.num_features, "dtype": str(matrix.dtype)}

    def _labels(self, labels: Labels | None) -> dict[str, Any] | None:
        if labels is None:
            return None
        classes = [c.item() if isinstance(c, np.generic) else c for c in labels.classes]
        classes = [c if isinstance(c, str | int | float) else str(c) for c in classes]
        if labels.codes is not None:
            self._array("labels", labels.codes)
        else:
            matrix = _canonical(labels.matrix)
            self._array("labels_indices", matrix.indices.astype(np.int32, copy=False))
            self._array("labels_indptr", matrix.indptr.astype(np.int32, copy=False))
        return {"multi": labels.is_multi, "classes": classes}

    def _array(
        self, name: str, values: npt.NDArray[Any], own: tuple[int, int] | None = None
    ) -> None:
        """Write an array; of one with ``own`` rows, the others become a hole."""
        first, last = (0, len(values)) if own is None else own
        header = {
            "descr": np.lib.format.dtype_to_descr(values.dtype),
            "fortran_order": False,
            "shape": values.shape,
        }
        each = values.itemsize * int(np.prod(values.shape[1:]))
        rows = max(1, _CHUNK // max(1, each))
        with CheckedFile(self.folder / f"{name}.npy") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.skip(each * first)
            for start in range(first, last, rows):
                piece = np.ascontiguousarray(values[start : min(start + rows, last)])
                file.write(piece.reshape(-1).view(np.uint8))
            file.skip(each * (len(values) - last))
            self.files[f"{name}.npy"] = file.finish()

    def _texts(self, name: str, values: pa.Array | Iterable[str]) -> None:
        if isinstance(values, TextColumn):
            values = values._values
        if not isinstance(values, pa.Array):
            values = pa.array([str(v) for v in values], pa.large_string())
        table = pa.record_batch({"value": values})
        with CheckedFile(self.folder / f"{name}.arrow") as file:
            with pa.ipc.new_file(pa.PythonFile(file, mode="w"), table.schema) as writer:
                writer.write_batch(table)
            self.files[f"{name}.arrow"] = file.finish()


def _canonical(matrix: Any) -> Any:
    """Return a CSR matrix with sorted, distinct, non-zero entries, copying only if it must."""
    if matrix.has_canonical_format and bool(np.all(matrix.data)):
        return matrix
    tidy = matrix.copy()
    tidy.sum_duplicates()
    tidy.eliminate_zeros()
    return tidy


class _Opener:
    """Puts a graph together from mapped files."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.manifest, self.reader = manifest, CheckedReader(folder, manifest)

    def open(self) -> Graph:
        """Return the graph; every array stays on disk."""
        known, reader = self.manifest, self.reader
        n = int(known["num_nodes"])
        part = _part(known)
        if part is not None and not 0 <= part.first <= part.last <= n:
            raise DamagedFileError(MANIFEST, f"names a part outside of {n:,} nodes")
        indptr = reader.row_bounds("indptr", n)
        own = None if part is None else slice(int(indptr[part.first]), int(indptr[part.last]))
        indices = reader.rows("indices", (None,), 0, n, own)
        _check_total("indptr.npy", indptr, len(indices))
        graph = Graph(
            indptr=indptr,
            indices=indices,
            ids=NodeIds(
                reader.ids("ids", n) if known["ids"] == "integer" else reader.texts("ids", n)
            ),
            features=self._features(n),
            feature_names=self._optional_texts("feature_names", self._num_features()),
            labels=self._labels(n),
            weights=(
                reader.numbers("weights", "f", indices.shape) if reader.has("weights.npy") else None
            ),
            directed=bool(known["directed"]),
            name=str(known["name"]),
            splits={
                s: reader.rows(f"split_{i}", (None,), 0, n) for i, s in enumerate(known["splits"])
            },
            titles=self._optional_texts("titles", n),
            report=_report(known["report"]),
            part=part,
        )
        reader.finish()
        return graph

    def _num_features(self) -> int:
        known = self.manifest["features"]
        return 0 if known is None else int(known["num_features"])

    def _features(self, n: int) -> Any:
        known = self.manifest["features"]
        if known is None:
            return None
        shape = (n, self._num_features())
        is_dense = known["layout"] == "dense"
        name = "features" if is_dense else "features_data"
        values = self.reader.numbers(name, "fiub", shape if is_dense else (None,))
        if str(values.dtype) != known["dtype"]:
            raise DamagedFileError(
                f"{name}.npy", f"holds numbers of type {values.dtype} and not {known['dtype']}"
            )
        return values if is_dense else self._matrix("features", shape, values)

    def _labels(self, n: int) -> Labels | None:
        known = self.manifest["labels"]
        if known is None:
            return None
        classes = tuple(known["classes"])
        if not known["multi"]:
            return Labels(classes, codes=self.reader.rows("labels", (n,), -1, len(classes)))
        return Labels(classes, matrix=self._matrix("labels", (n, len(classes))))

    def _matrix(
        self, name: str, shape: tuple[int, int], data: npt.NDArray[Any] | None = None
    ) -> sp.csr_matrix:
        """Return a sparse matrix over mapped files; all entries are true where none are given."""
        count = None if data is None else len(data)
        indices = self.reader.rows(f"{name}_indices", (count,), 0, shape[1])
        indptr = self.reader.row_bounds(f"{name}_indptr", shape[0])
        _check_total(f"{name}_indptr.npy", indptr, len(indices))
        values = np.ones(len(indices), dtype=bool) if data is None else data
        matrix = sp.csr_matrix((values, indices, indptr), shape=shape, copy=False)
        # Known since they were written: asking SciPy to find out would read every index.
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix

    def _optional_texts(self, name: str, count: int) -> TextColumn | None:
        has_texts = self.reader.has(f"{name}.arrow")
        return TextColumn(self.reader.texts(name, count)) if has_texts else None


def _check_total(file: str, bounds: npt.NDArray[Any], total: int) -> None:
    """Refuse row bounds of which the outermost do not enclose all entries."""
    if (int(bounds[0]), int(bounds[-1])) != (0, total):
        raise DamagedFileError(
            file, f"bounds rows from {bounds[0]} to {bounds[-1]} and not from 0 to {total}"
        )


def read_part(folder: Path) -> Part | None:
    """Return which part of a split store a folder holds; ``None`` for a whole store."""
    manifest = read_manifest(folder)
    try:
        return _part(manifest)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"the manifest of the store {folder} is damaged; split the store again"
        ) from None


def _part(manifest: dict[str, Any]) -> Part | None:
    known = manifest.get("part")
    if known is None:
        return None
    number, count, first, last = (int(known[n]) for n in ("number", "count", "first", "last"))
    return Part(number, count, first, last, str(known["whole"]))


def _report(known: dict[str, Any] | None) -> ReadReport | None:
    return None if known is None else ReadReport(**{**known, "notes": tuple(known["notes"])})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a store in a format we know, or refuse it in one sentence."""
    if not folder.exists():
        raise InputError(f"the store {folder} does not exist; check the path")
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder} is not a store: it has no {MANIFEST}; make one with ingest")
    try:
        manifest: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known, version, files = manifest["format"], manifest["version"], manifest["files"]
        whole = all(isinstance(f["bytes"], int) and f["blake2b"] for f in files.values())
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        known, version, files, whole = FORMAT, VERSION, {}, False
    if known != FORMAT:
        raise InputError(f"{folder} is not a store: its format is {known!r}; make one with ingest")
    if type(version) is not int or not 1 <= version <= VERSION:
        writer = str(manifest.get("graphham_version", "a newer graphham"))[:40]
        raise InputError(
            f"the store {folder} has version {str(version)[:40]} but this graphham reads versions "
            f"1 to {VERSION}; ingest the graph again, or install what wrote it ({writer})"
        )
    whole = whole and is_intact(manifest, version >= _SEALED_SINCE)
    if not whole or any(Path(name).name != name for name in files):
        raise InputError(f"the manifest of the store {folder} is damaged; ingest the graph again")
    result: dict[str, Any] = manifest
    return result
