"""What groups bring to the score of an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor


@dataclass(frozen=True, eq=False)
class GroupTerms:
    """What the two ends of an edge bring to its group score (E7).

    Args:
        left: ``(num_targets, K)`` for ``pair``, ``(num_targets, heads)`` for ``additive``, the
            ``(K, K)`` table B for ``table``.
        right: ``(num_sources, K)``, or ``(num_sources, heads)`` for ``additive``; for ``table``
            the assignments z.
        kind: ``pair`` scores an edge left_i . right_j for all heads, ``additive``
            LeakyReLU(left_i + right_j) for each, ``table`` z_i B z_j for all heads.
    """

    left: Tensor
    right: Tensor
    kind: Literal["pair", "additive", "table"]

    def expanded(self, num_targets: int) -> GroupTerms:
        """Return a ``table`` as the ``pair`` terms it stands for."""
        if self.kind != "table":
            return self
        return GroupTerms(self.right[:num_targets] @ self.left, self.right, "pair")
