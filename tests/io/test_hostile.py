"""Whatever bytes a file holds, a reader reads it or raises InputError in one sentence."""

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.io import attach_features, attach_labels, read_graph, write_edges
from tests.io.edge_files import read_both

GRAPH = build_graph(np.array([0, 1]), np.array([1, 2]), 3, ids=NodeIds(["a", "b", "c"]))
ENDINGS = ["csv", "tsv", "txt", "gz", "parquet", "npz", "npy", "graphml", ""]
# Cells and signs that mean something to some reader, so that random files come close to real ones.
PIECES = [
    *(
        "a",
        "b",
        "c",
        "1",
        "2",
        "007",
        "-3",
        "0.5",
        "nan",
        "",
        " ",
        "id",
        "label",
        "source",
        "target",
    ),
    *(",", ";", "\t", " ", "|", "\n", "\n", "\r\n", "\r", '"', '""', "'", "#", "%", "\ufeff", "é"),
    *("<graphml>", "<graph>", '<node id="a"/>', "</graph>", "</graphml>", "&amp;", "<!ENTITY"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join).map(str.encode)


def attempt(file: Path) -> None:
    """Give a file to every reader; anything but success or one sentence is a failure."""
    readers = [
        lambda: read_both(file),
        lambda: read_both(file, weight="w"),
        lambda: attach_features(GRAPH, file),
        lambda: attach_features(GRAPH, file, isolated=True),
        lambda: attach_features(GRAPH, file, skip_bad_rows=True, fill_missing="mean"),
        lambda: read_graph(file, skip_bad_rows=True),
        lambda: attach_labels(GRAPH, file),
        lambda: attach_labels(GRAPH, f"{file}:label", isolated=True),
    ]
    said = []
    for read in readers:
        try:
            read().validate()
        except InputError as error:
            said.append(str(error))
    for message in said:
        assert message
        # One sentence per fault; a file of many faults is told in a screenful.
        assert len(message.split("\n")) <= 24
        assert all(line.strip() for line in message.split("\n"))


@settings(max_examples=300)
@given(content=texts | st.binary(max_size=60), ending=st.sampled_from(ENDINGS))
def test_random_files(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"random.{ending}"
    file.write_bytes(content)
    attempt(file)


def whole_files() -> dict[str, bytes]:
    table = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b", "c"], "label": ["b", "c", "a"]}), table)
    arrays = io.BytesIO()
    np.savez(arrays, edges=np.array([[0, 1], [1, 2]]), ids=np.array(["a", "b", "c"]), x=np.eye(3))
    text = b'id,label\n"a","b"\nb,c\n'
    return {"parquet": table.getvalue(), "npz": arrays.getvalue(), "csv.gz": gzip.compress(text)}


@pytest.mark.parametrize("ending", ["parquet", "npz", "csv.gz", "graphml"])
def test_damaged_files(tmp_path: Path, ending: str) -> None:
    """Cut a good file at every length (or many), and flip bytes in it."""
    if ending == "graphml":
        write_edges(GRAPH, tmp_path / "whole.graphml")
        whole = (tmp_path / "whole.graphml").read_bytes()
    else:
        whole = whole_files()[ending]
    file = tmp_path / f"damaged.{ending}"
    step = max(1, len(whole) // 60)
    for length in range(0, len(whole), step):
        file.write_bytes(whole[:length])
        attempt(file)
    rng = np.random.default_rng(0)
    for place in range(0, len(whole), step):
        spoiled = bytearray(whole)
        spoiled[place] = int(rng.integers(256))
        file.write_bytes(spoiled)
        attempt(file)
