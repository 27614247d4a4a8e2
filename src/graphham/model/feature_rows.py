"""The input features of some nodes, sparse or dense, as a layer multiplies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphham import kernels


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The input features of some nodes, sparse or dense, behind one product.

    Args:
        matrix: ``(rows, num_features)`` sparse matrix, or ``None``.
        values: Its entries after dropout, or ``None`` for its own.
        dense: ``(rows, num_features)`` tensor, or ``None``.
    """

    matrix: kernels.SparseMatrix | None = None
    values: Any = None
    dense: Tensor | None = None

    def matmul(self, weight: Tensor) -> Tensor:
        """Return ``(rows, out)`` features times ``weight`` of shape ``(num_features, out)``."""
        if self.matrix is not None:
            return kernels.sparse_matmul(self.matrix, weight, self.values)
        assert self.dense is not None
        return self.dense @ weight

    def to_dense(self) -> Tensor:
        """Return the ``(rows, num_features)`` features written out."""
        if self.matrix is not None:
            return self.matrix.to_tensor(self.values, torch.zeros(())).to_dense()
        assert self.dense is not None
        return self.dense

    def norms(self) -> Tensor:
        """Return the ``(rows,)`` length of each node's feature vector."""
        if self.matrix is None:
            assert self.dense is not None
            return self.dense.square().sum(dim=1).sqrt()
        values = self.matrix.values if self.values is None else np.asarray(self.values)
        row = np.repeat(np.arange(len(self)), np.diff(self.matrix.indptr))
        squares = np.bincount(row, values.astype(np.float64) ** 2, minlength=len(self))
        return torch.from_numpy(np.sqrt(squares).astype(np.float32))

    def to(self, device: torch.device | str) -> FeatureRows:
        """Move dense features; sparse ones are moved by their product."""
        return self if self.dense is None else FeatureRows(dense=self.dense.to(device))

    def __len__(self) -> int:
        if self.matrix is not None:
            return self.matrix.shape[0]
        assert self.dense is not None
        return int(self.dense.shape[0])
