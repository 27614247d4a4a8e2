"""The first row of a table is taken for names only when it can be nothing else."""

from pathlib import Path

import pytest

from graphham.io.header import is_table_header
from tests.io.edge_files import put, read_both


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("u,v\nv,w\nw,x\n", 3),  # u and v are nodes here: v occurs below
        ("u,v\na,b\nb,c\n", 2),
        ("source,target\nsource,b\nb,c\n", 2),  # no such doubt about this pair
        ("ann,bob\nbob,cid\n", 2),
        ("person,friend,since\nann,bob,2001\nbob,cid,2004\n", 2),  # text over numbers
        ("left,right\n1,x\n2,y\n", 2),
        ("Source ID,Target ID\na,b\nb,c\n", 2),
    ],
)
def test_header_rule(tmp_path: Path, content: str, count: int) -> None:
    assert read_both(put(tmp_path, "e.csv", content)).num_edges == count


@pytest.mark.parametrize(
    ("rows", "is_node", "is_numeric", "expected"),
    [
        ([["id", "size"], ["a", "1"]], False, True, True),
        ([["a", "1"], ["b", "2"]], True, True, False),
        ([["a", "size"], ["b", "2"]], True, True, True),  # text over numbers, though a is a node
        ([["a", "red"], ["b", "blue"]], True, False, False),
        ([["x", "red"], ["b", "blue"]], False, False, False),
        ([["x", "label"], ["b", "blue"]], False, False, True),
        ([["x", "red"], ["1", "blue"]], False, False, True),  # text over whole numbers
    ],
)
def test_table_header_rule(
    rows: list[list[str]], is_node: bool, is_numeric: bool, expected: bool
) -> None:
    assert is_table_header(rows, is_node, is_numeric) == expected
