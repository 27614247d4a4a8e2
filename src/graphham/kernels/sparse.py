"""Sparse features times a dense matrix: bag-of-words input that is never made dense."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.errors import InputError
from graphham.system.jit import Array, frozen, jit, mix
from graphham.system.tensors import new_tensor, readable, runs_reference

_NO_ROWS = frozen(np.empty(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A fixed sparse matrix, readable by rows and by columns; arrays are read-only.

    Args:
        indptr: ``(num_rows + 1,)`` int64 row bounds.
        indices: ``(num_entries,)`` int32 columns.
        values: ``(num_entries,)`` float32 values in row order.
        num_columns: Number of columns.
        row_names: ``(num_rows,)`` int64 row of the matrix this one was sliced from, or ``None``.
    """

    indptr: Array
    indices: Array
    values: Array
    num_columns: int
    row_names: Array | None = None

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseMatrix:
        """Take over a SciPy sparse matrix; duplicate entries are added up."""
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        if rows.nnz >= 2**31:
            raise InputError(f"a sparse matrix holds fewer than 2**31 entries, got {rows.nnz:,}")
        return cls(
            frozen(rows.indptr, np.int64),
            frozen(rows.indices, np.int32),
            frozen(rows.data, np.float32),
            int(rows.shape[1]),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.indptr) - 1, self.num_columns

    @property
    def num_entries(self) -> int:
        """Number of stored entries."""
        return len(self.indices)

    def rows(self, selection: Any) -> SparseMatrix:
        """Return the matrix of the chosen rows, in that order."""
        chosen = frozen(selection, np.int64)
        num_rows = self.shape[0]
        if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < num_rows:
            worst = int(chosen.min()) if int(chosen.min()) < 0 else int(chosen.max())
            raise InputError(f"row {worst} lies outside 0..{num_rows - 1} of the sparse matrix")
        indptr, indices, values = _slice_rows(self.indptr, self.indices, self.values, chosen)
        names = chosen if self.row_names is None else frozen(self.row_names[chosen])
        return SparseMatrix(
            frozen(indptr), frozen(indices), frozen(values), self.num_columns, names
        )

    def with_dropout(self, rate: float, key: int | np.integer[Any]) -> Array:
        """Return values with about a share ``rate`` set to zero and the rest scaled up.

        What is dropped depends on the key, the original row and the column alone, so a slice drops
        what the whole matrix does. Pass the result to :func:`sparse_matmul`.
        """
        if not 0.0 <= rate < 1.0:
            raise InputError(f"the dropout rate must lie in [0, 1), got {rate}")
        if rate == 0.0:
            return self.values
        stays = _kept(self.indptr, self.indices, self._names, rate, np.uint64(key))
        scale = np.float32(1.0 / (1.0 - rate))
        return np.where(stays, self.values * scale, np.float32(0.0))

    def dropped(self, rate: float, key: int | np.integer[Any]) -> SparseMatrix:
        """Return the matrix :meth:`with_dropout` describes, without the entries it sets to zero."""
        if not 0.0 <= rate < 1.0:
            raise InputError(f"the dropout rate must lie in [0, 1), got {rate}")
        if rate == 0.0:
            return self
        stays = _kept(self.indptr, self.indices, self._names, rate, np.uint64(key))
        # One entry more: every entry is written, and written over unless it stays.
        indices = np.empty(self.num_entries + 1, dtype=np.int32)
        values = np.empty(self.num_entries + 1, dtype=np.float32)
        indptr = np.zeros(len(self.indptr), dtype=np.int64)
        scale = np.float32(1.0 / (1.0 - rate))
        _compact(self.indptr, self.indices, self.values, stays, scale, indptr, indices, values)
        count = int(indptr[-1])
        return SparseMatrix(
            frozen(indptr),
            frozen(indices[:count]),
            frozen(values[:count]),
            self.num_columns,
            self.row_names,
        )

    @property
    def _names(self) -> Array:
        return _NO_ROWS if self.row_names is None else self.row_names

    @cached_property
    def _places(self) -> dict[str, Tensor]:
        return {}

    def to_tensor(self, values: Array | Tensor | None, like: Tensor) -> Tensor:
        """Return a torch sparse COO tensor with the device and type of ``like``."""
        name = str(like.device)
        if name not in self._places:
            rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
            places = np.stack([rows, self.indices.astype(np.int64)])
            self._places[name] = torch.as_tensor(places, device=like.device)
        given = self.values if values is None else values
        # A copy: torch warns about sharing arrays that cannot be written.
        numbers = given if isinstance(given, Tensor) else torch.tensor(given)
        return torch.sparse_coo_tensor(
            self._places[name],
            numbers.to(like.device, like.dtype),
            self.shape,
            is_coalesced=True,
            check_invariants=False,
        )


def sparse_matmul(
    matrix: SparseMatrix, weight: Tensor, values: Array | Tensor | None = None
) -> Tensor:
    """Multiply a sparse matrix by a dense one; the gradient goes to the dense one only.

    Args:
        matrix: ``(num_rows, num_columns)``.
        weight: ``(num_columns, dim)``.
        values: ``(num_entries,)`` values to use in place of the matrix's own, such as those of
            :meth:`SparseMatrix.with_dropout`.

    Returns:
        ``(num_rows, dim)`` product.
    """
    if weight.dim() != 2 or weight.shape[0] != matrix.num_columns:
        raise InputError(
            f"the weight must have 2 dimensions and {matrix.num_columns:,} rows to fit the sparse "
            f"matrix, got shape {tuple(weight.shape)}"
        )
    if not weight.is_floating_point():
        raise InputError(f"the weight must hold floating-point numbers, got {weight.dtype}")
    if values is not None and tuple(values.shape) != (matrix.num_entries,):
        raise InputError(
            f"the sparse matrix has {matrix.num_entries:,} entries but values has shape "
            f"{tuple(values.shape)}"
        )
    if runs_reference(weight):
        product: Tensor = torch.sparse.mm(matrix.to_tensor(values, weight), weight)
        return product
    if isinstance(values, Tensor):
        values = values.detach().numpy()
    numbers = matrix.values if values is None else frozen(values, np.float32)
    out: Tensor = _SparseMatmul.apply(weight, matrix, numbers)  # type: ignore[no-untyped-call]
    return out


class _SparseMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: SparseMatrix, values: Array) -> Tensor:
        ctx.matrix, ctx.values = matrix, values
        out = new_tensor(matrix.shape[0], weight.shape[1])
        _multiply(matrix.indptr, matrix.indices, values, readable(weight), out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        matrix = ctx.matrix
        out = new_tensor(matrix.num_columns, grad.shape[1]).zero_()
        _spread(matrix.indptr, matrix.indices, ctx.values, readable(grad), out.numpy())
        return out, None, None


@jit
def _multiply(indptr: Array, indices: Array, values: Array, weight: Array, out: Array) -> None:
    """Write the sparse matrix times ``weight``."""
    num_rows, dim = out.shape
    for i in range(num_rows):
        low, high = indptr[i], indptr[i + 1]
        for d in range(dim):
            out[i, d] = np.float32(0.0)
        # Four entries at a time: out is read and written once per four rows of the weight.
        k = low
        while k + 4 <= high:
            j0, j1, j2, j3 = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            w0, w1, w2, w3 = values[k], values[k + 1], values[k + 2], values[k + 3]
            for d in range(dim):
                first = w0 * weight[j0, d] + w1 * weight[j1, d]
                out[i, d] += first + w2 * weight[j2, d] + w3 * weight[j3, d]
            k += 4
        while k < high:
            j, w = indices[k], values[k]
            for d in range(dim):
                out[i, d] += w * weight[j, d]
            k += 1


@jit
def _spread(indptr: Array, indices: Array, values: Array, grad: Array, out: Array) -> None:
    """Add the transposed sparse matrix times ``grad`` to ``out``.

    Row by row, so that no transposed copy is needed; a weight's gradient stays in the cache where
    the gradient of all rows would not.
    """
    num_rows, dim = grad.shape
    for i in range(num_rows):
        largest = np.float32(0.0)
        for d in range(dim):
            largest += abs(grad[i, d])
        if largest == 0:
            continue  # a node without a label to learn from
        for k in range(indptr[i], indptr[i + 1]):
            j, w = indices[k], values[k]
            for d in range(dim):
                out[j, d] += w * grad[i, d]


@jit
def _slice_rows(
    indptr: Array, indices: Array, values: Array, chosen: Array
) -> tuple[Array, Array, Array]:
    bounds = np.zeros(len(chosen) + 1, dtype=np.int64)
    for r in range(len(chosen)):
        bounds[r + 1] = bounds[r] + indptr[chosen[r] + 1] - indptr[chosen[r]]
    new_indices = np.empty(bounds[-1], dtype=np.int32)
    new_values = np.empty(bounds[-1], dtype=np.float32)
    for r in range(len(chosen)):
        shift = indptr[chosen[r]] - bounds[r]
        for k in range(bounds[r], bounds[r + 1]):
            new_indices[k] = indices[k + shift]
            new_values[k] = values[k + shift]
    return bounds, new_indices, new_values


@jit
def _kept(indptr: Array, indices: Array, names: Array, rate: float, key: Any) -> Array:
    """Decide for each entry whether it stays, by its original row and its column."""
    # The same as unit(bits) >= rate, in whole numbers.
    least = np.int64(np.ceil(rate * 9007199254740992.0))
    stays = np.empty(len(indices), dtype=np.bool_)
    for i in range(len(indptr) - 1):
        row = names[i] if len(names) > 0 else np.int64(i)
        row_key = mix(key, row)
        for k in range(indptr[i], indptr[i + 1]):
            stays[k] = np.int64(mix(row_key, indices[k]) >> np.uint64(11)) >= least
    return stays


@jit
def _compact(
    indptr: Array,
    indices: Array,
    values: Array,
    stays: Array,
    scale: Any,
    new_indptr: Array,
    new_indices: Array,
    new_values: Array,
) -> None:
    """Close the gaps that dropped entries leave, and scale up the others."""
    spot = np.int64(0)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            # Unlike a branch this does not make the processor guess.
            new_indices[spot] = indices[k]
            new_values[spot] = values[k] * scale
            spot += np.int64(stays[k])
        new_indptr[i + 1] = spot
