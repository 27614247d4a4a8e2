"""Checkpoints: what was saved comes back, damage is refused, a crash loses nothing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphham.training.checkpoints import read_tensors, write_tensors


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=6),
        st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "float16", ">f4"]),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_tensors_come_back_equal(tmp_path_factory, kinds, dims) -> None:
    path = tmp_path_factory.mktemp("t") / "x.safetensors"
    rng = np.random.default_rng(dims)
    arrays = {k: (rng.random((2, 3, 4)[:dims]) * 5).T.astype(d) for k, d in kinds.items()}
    write_tensors(path, arrays)
    back = read_tensors(path)
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].shape == array.shape
        np.testing.assert_array_equal(back[name], array)
