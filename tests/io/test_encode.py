"""Columns of ids become whole numbers or text, and come back as they were written."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.io.encode import arrow_ids, as_exact_integers, id_column, listed, node_ids


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1).map(str), min_size=1))
def test_plain_whole_numbers_become_integers(texts: list[str]) -> None:
    numbers = as_exact_integers(pa.array(texts, pa.large_string()))
    assert numbers is not None
    assert [str(v) for v in numbers] == texts


@pytest.mark.parametrize("odd", ["007", "-0", "+1", "1.0", " 1", "", "1e3", "9" * 19, "٣"])
def test_one_odd_text_keeps_all_text(odd: str) -> None:
    assert as_exact_integers(pa.array(["1", odd], pa.large_string())) is None


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1.0, 2.0]), [1, 2]),
        (pa.array([3, 4], pa.uint8()), [3, 4]),
        (pa.array([2**64 - 1, 1], pa.uint64()), [str(2**64 - 1), "1"]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
        (pa.array([b"x", b"y"]), ["x", "y"]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_id_columns_of_any_type(column: pa.Array, expected: list[object]) -> None:
    assert id_column(column, "c", "f").to_pylist() == expected
    assert id_column(pa.chunked_array([column]), "c", "f").to_pylist() == expected


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([[1]]), pa.array([True])])
def test_columns_that_cannot_be_ids(column: pa.Array) -> None:
    with pytest.raises(InputError, match="column 'c' of f is of type"):
        id_column(column, "c", "f")


def test_numpy_ids_keep_every_digit() -> None:
    assert arrow_ids(np.array([2**64 - 1], np.uint64)).to_pylist() == [str(2**64 - 1)]
    assert node_ids(np.array(["10", "9"])).tolist() == [10, 9]
    with pytest.raises(InputError, match="'b' occurs twice"):
        node_ids(np.array(["a", "b", "b"]))


def test_long_lists_of_names_are_cut() -> None:
    assert listed([]) == "nothing"
    assert listed(["a\nb", "c"]) == "the columns a b, c"
    assert listed(map(str, range(20)), "the arrays").endswith("11 and 8 more")
