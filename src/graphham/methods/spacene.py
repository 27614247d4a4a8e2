"""SpaceNE (Long et al., CIKM 2019): a linear subspace per community, nested along a tree.

Vectors of random walks are projected, community by community and top down, onto subspaces that lie
within their parent's. Only the graph and the tree are read, neither features nor labels.

For the child communities c of a group, with coordinates X_c in the group's own subspace of width d,
find bases U_c (d x (d - drop)) that minimise

    - sum_c |X_c U_c|^2  +  alpha * sum_{c<c'} |X_c U_c U_c'^T X_c'^T - X_c X_c'^T|
    + lambda * sum_c g(singular values of U_c)

that is: keep the variation within a community, keep inner products between communities, and keep
ranks low. X_c is projected on U_c and the same is done one level down, until only leaves are left.
The embedding is a node's vector projected on the subspace of its innermost community, in the
original coordinates.

Steps: vectors of walks (80 walks of 10 nodes from every node, window 5); the tree (see ``trees``);
bases top down; projection. At the root, vectors are standardised while bases are fitted.

Two variants:

- ``described`` (default): bases are orthonormal throughout, start from the main directions the
  communities share and are trained until the loss settles (at most 200 steps). On orthonormal bases
  every singular value is 1, so the rank penalty is constant and left out; ``drop`` sets the rank.
- ``released``: as the authors' program does it. Ten free steps of Adam (0.01) from a random start,
  rank penalty with lambda 1000 whose two branches are swapped against the usual form, standardised
  vectors times 100, orthonormal only afterwards. Ten steps hardly move the start, so each community
  loses a nearly random direction per level and the result is close to the vectors of the walks.

From the authors' configuration: alpha 1, lambda 1000, Adam 0.01, one direction less per level, the
walks. Ours: width 128 (64 there); skip-gram with negative samples in one pass over fresh walks
(hierarchical softmax and three passes there).

Unclear: the scale of the random start; how bases are made orthonormal (the nearest orthonormal
matrix here); where the published trees came from. Isolated nodes are on no walk and get zeros.

Time: that of the walks, plus steps x (C d^3 + C^2 d^2) for a group of C communities; with hundreds
of them ``described`` takes fewer steps, so that a group costs minutes at most. Memory: a few
tables of C d^2 numbers and the vectors; the built tree keeps C below 500, and the estimate is
checked before the walks (``memory_gib``). Facebook (22,470 nodes, 171,002 edges): 139 CPU seconds
and 0.6 GiB on one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.undirected import undirected
from graphham.methods.community_tree import Tree
from graphham.methods.deepwalk import DeepWalk
from graphham.methods.parameters import keyword_settings
from graphham.methods.tree_method import TreeMethod
from graphham.sampling.keys import derive_key

if TYPE_CHECKING:
    from graphham.training.epochs import Listener

Array = npt.NDArray[np.float64]
_STEPS = {"described": 200, "released": 10}
# Tables of communities x width x width alive at once: bases, slopes, Adam's, products.
_TABLES = 14


@keyword_settings
class SpaceNE(TreeMethod):
    """Project vectors of random walks onto nested subspaces, one per community of a tree.

    Args:
        variant: ``described`` or ``released``.
        drop: Directions a community's subspace gives up against its parent's.
        alpha: Weight of the inner products between communities.
        rank_weight: Weight of the rank penalty (``released`` only).
        steps: Most steps per group; 200 or, as released, 10 when not given.
        lr: Learning rate of the bases.
        walks: Walks from every node.
        walk_length: Nodes of a walk.
        window: Largest distance of two nodes that predict each other.
        **settings: Those of :class:`TreeMethod`.

    Attributes:
        removed_: ``(num_groups, dim, drop)`` float32 directions each group gives up, zero where
            nothing was left to give.
    """

    name: ClassVar[str] = "spacene"

    variant: str = "described"
    drop: int = 1
    alpha: float = 1.0
    rank_weight: float = 1000.0
    steps: int | None = None
    lr: float = 0.01
    walks: int = 80
    walk_length: int = 10
    window: int = 5

    removed_: npt.NDArray[np.float32] = field(init=False)

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"drop": 8}, {"window": 10, "walk_length": 20}, {"variant": "released"}]

    def memory_bytes(self, graph: Graph, tree: Tree) -> int:
        """Return about how much memory a fit takes beyond the graph."""
        communities = (
            int(np.bincount(tree.parent[1:], minlength=1).max()) if tree.parent[1:].size else 0
        )
        squares = _TABLES * 8 * communities * self.dim**2
        return squares + 4 * self.dim * (4 * graph.num_nodes + self.drop * tree.num_groups)

    def _embed(self, graph: Graph, listener: Listener | None) -> None:
        self._check_settings()
        linked = undirected(graph)
        tree = self._make_tree(linked)
        advice = "give a tree with fewer communities per group, or lower dim"
        self._check_memory(self.memory_bytes(linked, tree), advice)
        walker = DeepWalk(
            seed=self.seed,
            dim=self.dim,
            walks=self.walks,
            walk_length=self.walk_length - 1,
            window=self.window,
        )
        walker.fit(replace(linked, labels=None, splits={}), listener=listener)
        self.history_ = walker.history_
        vectors = walker.embedding_
        self.removed_ = self._removed(vectors, tree)
        self.embedding_ = projected(vectors, tree, self.removed_)

    def _check_settings(self) -> None:
        if self.variant not in _STEPS:
            raise InputError(
                f"there is no variant {self.variant!r} of spacene; choose described or released"
            )
        self._check_counts("drop", "walks", "window")
        self._check_counts("walk_length", least=2)
        if self.steps is not None and self.steps < 0:
            raise InputError(f"steps must not be negative, got {self.steps}")

    def _removed(self, vectors: npt.NDArray[np.float32], tree: Tree) -> npt.NDArray[np.float32]:
        """Go down the tree; return the directions each group's subspace gives up."""
        removed = np.zeros((tree.num_groups, self.dim, self.drop), dtype=np.float32)
        waiting: list[tuple[int, Array]] = [(0, np.eye(self.dim))]
        while waiting:
            group, basis = waiting.pop()
            groups = tree.children(group)
            drop = min(self.drop, basis.shape[1] - 1)
            if not len(groups) or drop < 1:
                continue
            grams = self._grams(vectors, tree, group, basis)
            for child, own in zip(groups.tolist(), self._bases(grams, drop, group), strict=True):
                # The complete QR of a basis ends with the directions it lacks.
                lost = np.linalg.qr(own, mode="complete")[0][:, -drop:]
                removed[child, :, :drop] = basis @ lost
                if len(tree.children(child)):
                    waiting.append((child, basis @ own))
        return removed

    def _grams(
        self, vectors: npt.NDArray[np.float32], tree: Tree, group: int, basis: Array
    ) -> Array:
        """Return X^T X of every child community in the group's own coordinates."""
        mean, scale = np.zeros(self.dim), np.ones(self.dim)
        if group == 0:
            mean = vectors.mean(0, dtype=np.float64)
            scale = np.maximum(vectors.std(0, dtype=np.float64), 1e-12)
            scale = scale / 100 if self.variant == "released" else scale
        rows = [tree.rows_under(child)[0] for child in tree.children(group).tolist()]
        found = [((vectors[some] - mean) / scale) @ basis for some in rows]
        return np.stack([x.T @ x for x in found])

    def _bases(self, grams: Array, drop: int, group: int) -> Array:
        from graphham.methods.subspaces import fit_released, fit_subspaces

        steps = _STEPS[self.variant] if self.steps is None else self.steps
        if self.variant == "described":
            return fit_subspaces(grams, drop, self.alpha, steps, self.lr)
        key = derive_key(self.seed, "bases", group)
        return fit_released(grams, drop, self.alpha, steps, self.lr, self.rank_weight, key)

    def subspace(self, group: int) -> Array:
        """Return a ``(dim, width)`` orthonormal basis of a group's subspace.

        Args:
            group: Number of a group of ``tree_``; 0 is the root, whose subspace is everything.
        """
        self._check_fitted()
        if not 0 <= group < self.tree_.num_groups:
            raise InputError(f"there is no group {group}; give 0..{self.tree_.num_groups - 1}")
        lost = [np.zeros((self.dim, 0))]
        while group > 0:
            directions = self.removed_[group].astype(np.float64)
            lost.append(directions[:, np.abs(directions).sum(0) > 0])
            group = int(self.tree_.parent[group])
        gone = np.concatenate(lost, axis=1)
        return np.linalg.qr(gone, mode="complete")[0][:, gone.shape[1] :]

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "removed": self.removed_}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._restore(state, facts)
        self.removed_ = state["removed"]


def projected(
    vectors: npt.NDArray[np.float32], tree: Tree, removed: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Project each node's vector on the subspace of its innermost community.

    Args:
        vectors: ``(num_nodes, dim)``.
        tree: The tree.
        removed: ``(num_groups, dim, drop)`` directions each group gives up; along a path from the
            root they are orthonormal, so they can be taken away one after the other.
    """
    out = vectors.astype(np.float64)
    for group in range(1, tree.num_groups):
        rows = tree.rows_under(group)[0]
        lost = removed[group].astype(np.float64)
        out[rows] -= (vectors[rows] @ lost) @ lost.T
    return out.astype(np.float32)
