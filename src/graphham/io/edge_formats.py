"""The table of edge formats: how each is recognised and which function opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphham.io.array_edges import open_arrays
from graphham.io.edge_streams import EdgeColumns, EdgeSource
from graphham.io.files import Raw, SpillFolder, check_file, read_raw
from graphham.io.graphml_edges import open_graphml
from graphham.io.parquet_edges import open_parquet
from graphham.io.text_edges import open_text


@dataclass(frozen=True)
class Format:
    """One kind of edge file.

    Args:
        open: Says what is in a file.
        starts: What the first bytes may be, which decides.
        suffixes: Ends of file names, which decide where the first bytes are of no known kind.
    """

    open: Callable[[Path, Raw, EdgeColumns], EdgeSource]
    starts: tuple[bytes, ...] = ()
    suffixes: tuple[str, ...] = ()


FORMATS = {
    "parquet": Format(open_parquet, (b"PAR1",), (".parquet", ".pq")),
    "npz": Format(open_arrays, (b"PK\x03\x04",), (".npz",)),
    "npy": Format(open_arrays, (b"\x93NUMPY",), (".npy",)),
    "graphml": Format(open_graphml, (b"<?xml", b"<graphml", b"<!"), (".graphml",)),
    "text": Format(open_text),  # also whatever is of no other kind
}


def kind_of(path: Path, raw: Raw) -> str:
    """Tell the format of a file from its first bytes, or else from its name."""
    start = raw[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    by_start = (kind for kind, known in FORMATS.items() if start.startswith(known.starts))
    by_name = (kind for kind, known in FORMATS.items() if suffix in known.suffixes)
    return next(by_start, None) or next(by_name, "text")


def open_edges(path: Path, columns: EdgeColumns, spill: SpillFolder) -> EdgeSource:
    """Open an edge file of any format as a stream of batches."""
    file = check_file(path, "edge")
    raw = read_raw(file, spill)
    return FORMATS[kind_of(file, raw)].open(file, raw, columns)
