"""Write a large file of random edges with text ids, to measure ``graphham ingest``.

One end of every edge is drawn evenly, the other with a preference for low numbers, so that degrees
differ; the order of rows is random, which is the hardest for the table of ids.

    python scripts/make_edges.py edges.parquet --rows 60000000 --nodes 2400000
    graphham ingest edges.parquet --out stores/edges
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

_CHUNK = 1 << 20


def make_edges(path: Path, rows: int, nodes: int, seed: int = 0, weights: bool = False) -> None:
    """Write edges between ids ``u0``, ``u1``, ... as Parquet or, by its name, as CSV.

    Args:
        path: The file to write; ``.csv`` makes it CSV.
        rows: Number of edges.
        nodes: Number of ids to draw from.
        seed: Chooses the edges.
        weights: Add a column ``weight``.
    """
    writer: pq.ParquetWriter | pcsv.CSVWriter | None = None
    for chunk, start in enumerate(range(0, rows, _CHUNK)):
        rng = np.random.default_rng([seed, chunk])
        count = min(_CHUNK, rows - start)
        even = rng.integers(0, nodes, count)
        skewed = (nodes * rng.random(count) ** 2).astype(np.int64)
        table = pa.table({"source": _names(even), "target": _names(skewed)})
        if weights:
            table = table.append_column("weight", pa.array(rng.random(count) + 0.5))
        if writer is None:
            kind = pcsv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
            writer = kind(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _names(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("u", pa.array(numbers).cast(pa.string()), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=60_000_000)
    parser.add_argument("--nodes", type=int, default=2_400_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", action="store_true")
    args = parser.parse_args()
    make_edges(args.path, args.rows, args.nodes, args.seed, args.weights)
