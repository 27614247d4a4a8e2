"""Columns reach the browser as they were sent."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from graphham.explore.binary_columns import pack, unpack

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    arrays(np.float32, st.integers(0, 7), elements=st.floats(width=32, allow_nan=False)),
    arrays(np.uint16, st.integers(0, 7)),
    st.lists(texts, max_size=6),
    texts,
)
def test_columns_come_back_as_they_were_sent(numbers, codes, words, note) -> None:
    data = pack({"a": numbers, "w": words, "c": codes}, {"note": note})
    columns, header = unpack(data)
    assert header["note"] == note
    np.testing.assert_array_equal(columns["a"], numbers)
    np.testing.assert_array_equal(columns["c"], codes)
    assert columns["w"] == words
    start = 4 + int.from_bytes(data[:4], "little")
    assert start % 8 == 0  # a browser cannot read a float at an odd place
    assert all(c["offset"] % 8 == 0 for c in header["columns"])
