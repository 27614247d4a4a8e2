"""Which rows of a table describe a node for the first time; more in test_bad_rows."""

import numpy as np
import pyarrow as pa
import pytest

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.io.missing import filled, missing_values, usable_rows


def test_the_first_row_of_an_id_is_kept_and_order_stays() -> None:
    ids = pa.chunked_array([["b", "x", "a"], ["b", "c"]])
    keep, notes = usable_rows(NodeIds(["a", "b", "c"]), ids, False, "t")
    assert keep.tolist() == [0, 2, 4]
    assert len(notes) == 2
    keep, notes = usable_rows(NodeIds(["a", "b", "c"]), ids, True, "t")
    assert keep.tolist() == [0, 1, 2, 4]
    assert len(notes) == 1


def test_many_features_with_gaps_are_summed_up() -> None:
    matrix = np.full((2, 15), np.nan, dtype=np.float32)
    matrix[1] = np.inf
    names = [f"f{i}" for i in range(15)]
    told = missing_values(matrix, names, pa.chunked_array([["a", "b"]]), "t")
    assert len(told) == 11
    assert "5 more features" in told[-1]
    assert "is missing (blank or NaN), and so are 1 more of it" in told[0]


def test_infinity_is_no_gap() -> None:
    matrix = np.array([[np.inf]], dtype=np.float32)
    with pytest.raises(InputError, match="infinite"):
        filled(matrix, pa.chunked_array([["a"]]), NodeIds(["a"]), "zero")
