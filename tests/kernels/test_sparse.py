import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.kernels import SparseMatrix, sparse_matmul


@st.composite
def matrices(draw):
    """Small sparse matrices, empty rows, columns and whole matrices included."""
    shape = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = rng.normal(size=shape) * (rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    return sp.csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize("version", ["compiled", "reference"])
@given(matrix=matrices(), dim=st.integers(1, 19), rate=st.sampled_from([0.0, 0.4]))
def test_product_and_gradient_equal_the_dense_ones(version, matrix, dim, rate):
    held = SparseMatrix.from_scipy(matrix)
    values = held.with_dropout(rate, 7)
    dense = torch.as_tensor(
        sp.csr_matrix((np.array(values), matrix.indices, matrix.indptr), matrix.shape).toarray()
    )
    weight = torch.linspace(-1, 1, matrix.shape[1] * dim).reshape(-1, dim).requires_grad_()
    # Backward must meet a gradient that is not contiguous.
    seed = torch.arange(1.0, matrix.shape[0] + 1)[:, None].expand(-1, dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHHAM_OPS", version)
        out = sparse_matmul(held, weight, values)
    assert ("SparseMatmul" in type(out.grad_fn).__name__) == (version == "compiled")
    torch.testing.assert_close(out, dense @ weight, rtol=1e-4, atol=1e-5)
    (grad,) = torch.autograd.grad(out, weight, seed)
    torch.testing.assert_close(grad, dense.t() @ seed, rtol=1e-4, atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHHAM_OPS", version)
        less = sparse_matmul(held.dropped(rate, 7), weight)
    torch.testing.assert_close(less, out)
    (again,) = torch.autograd.grad(less, weight, seed)
    torch.testing.assert_close(again, grad)


def test_torch_version_passes_gradcheck():
    held = SparseMatrix.from_scipy(sp.csr_matrix([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 0]]))
    weight = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: sparse_matmul(held, w), weight)
    dense = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(sparse_matmul(held, weight), dense @ weight)


@given(matrix=matrices(), data=st.data())
def test_a_slice_keeps_values_and_drops_what_the_whole_drops(matrix, data):
    held = SparseMatrix.from_scipy(matrix)
    rows = data.draw(st.lists(st.integers(0, matrix.shape[0] - 1), max_size=12))
    piece = held.rows(rows)
    np.testing.assert_array_equal(
        piece.to_tensor(None, torch.ones(1)).to_dense(), matrix[rows].toarray()
    )
    whole = sp.csr_matrix((held.with_dropout(0.5, 3), held.indices, held.indptr), matrix.shape)
    part = sp.csr_matrix((piece.with_dropout(0.5, 3), piece.indices, piece.indptr), piece.shape)
    np.testing.assert_array_equal(part.toarray(), whole[rows].toarray())
    less = piece.dropped(0.5, 3)
    assert less.num_entries == np.count_nonzero(part.toarray())
    np.testing.assert_array_equal(
        less.to_tensor(None, torch.ones(1)).to_dense(), whole[rows].toarray()
    )
    # A slice of a slice still answers for the rows of the first matrix.
    again = piece.rows(np.arange(len(rows))[::-1])
    np.testing.assert_array_equal(
        again.with_dropout(0.5, 3),
        whole[rows[::-1]].toarray()[matrix[rows[::-1]].toarray() != 0],
    )


def test_dropout_keeps_the_mean_and_follows_the_key():
    held = SparseMatrix.from_scipy(sp.csr_matrix(np.ones((300, 200), dtype=np.float32)))
    one = held.with_dropout(0.4, 1)
    assert set(np.unique(one)) == {np.float32(0.0), np.float32(1 / 0.6)}
    assert abs(one.mean() - 1.0) < 0.02
    np.testing.assert_array_equal(one, held.with_dropout(0.4, 1))
    agree = (one == held.with_dropout(0.4, 2)).mean()
    assert abs(agree - (0.4**2 + 0.6**2)) < 0.02


def test_duplicate_entries_are_added_and_the_input_is_left_alone():
    raw = sp.csr_matrix((np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 2, 3])))
    held = SparseMatrix.from_scipy(raw)
    assert raw.nnz == 3
    out = sparse_matmul(held, torch.eye(2))
    torch.testing.assert_close(out, torch.tensor([[0.0, 3.0], [5.0, 0.0]]))


def test_wrong_inputs_are_named():
    held = SparseMatrix.from_scipy(sp.csr_matrix(np.eye(3, dtype=np.float32)))
    with pytest.raises(InputError, match=r"3 rows.*\(4, 2\)"):
        sparse_matmul(held, torch.ones(4, 2))
    with pytest.raises(InputError, match="int64"):
        sparse_matmul(held, torch.ones(3, 2, dtype=torch.int64))
    with pytest.raises(InputError, match=r"3 entries.*\(2,\)"):
        sparse_matmul(held, torch.ones(3, 2), np.ones(2))
    with pytest.raises(InputError, match=r"row 5 lies outside 0\.\.2"):
        held.rows([0, 5])
    with pytest.raises(InputError, match=r"\[0, 1\), got 1\.0"):
        held.with_dropout(1.0, 0)
