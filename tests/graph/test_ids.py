"""Ids and rows map onto each other exactly, whatever type the question comes in."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.ids import NodeIds

words = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True)
numbers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True)


@given(words | numbers)
def test_every_id_finds_its_row(values: list[str] | list[int]) -> None:
    ids = NodeIds(values)
    expected = list(range(len(values)))
    assert ids.kind == ("integer" if isinstance(values[0], int) else "text")
    assert ids.tolist() == values
    assert [ids[i] for i in expected] == values
    for asked in (values, [str(v) for v in values], ids, pa.array(values), ids.to_arrow()):
        assert ids.find(asked).tolist() == expected
    assert ids.first_duplicate() is None
    assert NodeIds(ids.to_arrow()) == ids
    assert ids.take(expected[::-1]).tolist() == values[::-1]


@pytest.mark.parametrize("count", [100, 30_000])
def test_long_and_short_columns_answer_alike(count: int) -> None:
    """Long Arrow columns take another way than short ones."""
    values = np.arange(count, dtype=np.int64) * 7 - 5
    asked = pa.array([*map(str, values.tolist()), "x", None, "8888888888888888888888", "007"])
    found = NodeIds(values).find(asked)
    assert found[:count].tolist() == list(range(count))
    assert found[count:-1].tolist() == [-1, -1, -1]
    texts = [f"n{v}" for v in values.tolist()]
    column = pa.chunked_array([texts, ["zz", None]])
    assert NodeIds(texts).find(column).tolist() == [*range(count), -1, -1]
    assert NodeIds(texts).find(column.to_pylist()).tolist() == [*range(count), -1, -1]


@given(st.lists(st.integers(-9, 9), min_size=1, unique=True), st.lists(st.integers(-12, 12)))
def test_unknown_ids_are_minus_one(values: list[int], asked: list[int]) -> None:
    expected = [values.index(v) if v in values else -1 for v in asked]
    assert NodeIds(values).find(np.array(asked, dtype=np.int64)).tolist() == expected


def test_digits_of_other_scripts_are_text() -> None:
    assert NodeIds([1, 2]).find(["١", "1"]).tolist() == [-1, 0]


def test_numbers_beyond_64_bits_stay_whole() -> None:
    assert NodeIds([2**64, 1]).tolist() == [str(2**64), "1"]
    assert NodeIds([1]).find(np.array([2**64 - 1], dtype=np.uint64)).tolist() == [-1]
    with pytest.raises(InputError, match=str(2**64 - 1)):
        NodeIds(np.array([2**64 - 1], dtype=np.uint64))


def test_unknown_id_is_named_with_the_nearest() -> None:
    ids = NodeIds(["paper:31336", "paper:31337"])
    with pytest.raises(InputError, match=r"'papr:31336'.*did you mean 'paper:31336'"):
        ids.row("papr:31336")
    with pytest.raises(InputError, match="2 such ids"):
        ids.rows(["x", "y"])
    assert ids.row("paper:31337") == 1
    assert "paper:31337" in ids
    assert "paper" not in ids
    assert None not in ids


def test_half_a_character_is_named() -> None:
    with pytest.raises(InputError, match="ud800"):
        NodeIds(["a", "\ud800"])


def test_duplicates_are_found() -> None:
    assert NodeIds([3, 1, 3]).first_duplicate() == 3
    assert NodeIds(["a", "b", "b"]).first_duplicate() == "b"


def test_a_range_behaves_like_its_numbers() -> None:
    ids = NodeIds.range(5)
    assert ids == NodeIds(list(range(5)))
    assert ids.find([-1, 0, 4, 5]).tolist() == [-1, 0, 4, -1]
    assert ids != NodeIds(["0", "1", "2", "3", "4"])
