"""The columns of an edge are found by name or by place."""

import pytest

from graphham.errors import InputError
from graphham.io.edge_streams import EdgeColumns


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (EdgeColumns(), (0, 1, None)),
        (EdgeColumns(target="a"), (1, 0, None)),
        (EdgeColumns(source="b"), (1, 0, None)),
        (EdgeColumns(weight="a"), (1, 2, 0)),
        (EdgeColumns("c", "a", "b"), (2, 0, 1)),
    ],
)
def test_positions(columns: EdgeColumns, expected: tuple[int, int, int | None]) -> None:
    assert columns.positions(["a", "b", "c"], "f") == expected


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (EdgeColumns(source="x"), "f has no column 'x'; it has the columns a, b"),
        (EdgeColumns("a", "a"), "are both 'a'"),
        (EdgeColumns(source="b", weight="a"), "no column left for the target"),
        (EdgeColumns(target="b", weight="a"), "no column left for the source"),
    ],
)
def test_columns_that_are_not_there(columns: EdgeColumns, told: str) -> None:
    with pytest.raises(InputError, match=told):
        columns.positions(["a", "b"], "f")
