"""GNE, galaxy network embedding (Du et al., IJCAI 2018): spheres around spheres, along a tree.

The children of every group of a tree lie on a sphere around it, similar ones close together, and
spheres shrink with depth. Only the graph and the tree are read, neither features nor labels.

Similarity of two nodes is their number of common neighbours, themselves included, over the root of
the product of their degrees plus one: the dot product of rows of B = D^-1/2 (A + I). Of two groups
it is the mean over pairs of their nodes, b_p . b_q / (|p| |q|) with b_p the sum of the rows of p,
so that nothing of size nodes x nodes is ever made.

For every group with centre c and radius r (the root: 0 and 1):

1. One or two children: a random direction and its opposite. More: child i gets a vector x_i by
   minimising the cross-entropy between its normalised row of similarities and softmax(x_i W + b).
2. Unit vectors z_i minimise the norm of max(0, D/|D| - G/|G|), where D holds squared distances
   of the x and G_ij = 2 - 2 cos(z_i, z_j): what was apart may not move closer on the sphere.
3. Child i is placed at c + r z_i.
4. A child group's radius is the mean over siblings j of std_ij / (3 sim_ij) times their distance,
   kept within 0.05 and 0.25 of r; std_ij is the spread, over nodes of i, of their mean similarity
   to j.

Steps 1 and 2 need no coordinates, so all groups of a tree are solved side by side.

Defaults are those of the authors' configuration (Adam 0.003 and 0.001, at most 6001 and 10001
steps, stop when the loss changes by less than 1e-3 and 1e-4 in 100 steps), except the width (128 as
in GraphHAM's tables, 64 there) and the root's radius (1e6 there: only scale).

Unclear: the starting values (ours: x and W normal with deviation dim^-1/2, z from the centred x);
where the published trees came from (ours: see ``trees``); whether similarities of weighted graphs
were meant (ours: weights are ignored). A further term of the authors' second loss is constant and
left out. The vectors mostly encode the path in the tree, so they are as good as the tree.

Time: edges x children for similarities, steps x (sum of squared numbers of children) x dim for the
rest; the built tree keeps children below 500, so both are linear in the graph. Memory: the squares
of similarities of all groups, 14 copies of one batch of them, and the coordinates; the estimate is
checked before the fit (``memory_gib``). Facebook (22,470 nodes, 171,002 edges): 133 CPU seconds and
0.6 GiB on one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from graphham.graph.graph import Graph
from graphham.graph.undirected import undirected
from graphham.methods.community_tree import Tree
from graphham.methods.parameters import keyword_settings
from graphham.methods.spheres import BATCH_ENTRIES, place_on_spheres
from graphham.methods.tree_method import TreeMethod
from graphham.sampling.keys import derive_key

if TYPE_CHECKING:
    from graphham.training.epochs import Listener

Array = npt.NDArray[np.float64]
_CHUNK = 1 << 14
# Copies of a group's square of similarities alive at once while it is solved.
_COPIES = 14


@keyword_settings
class GNE(TreeMethod):
    """Place the children of every group of a tree on a sphere around it.

    Args:
        steps: Most steps for the vectors of siblings.
        sphere_steps: Most steps for their places on the sphere.
        lr: Learning rate for the vectors.
        sphere_lr: Learning rate for the places.
        **settings: Those of :class:`TreeMethod`.

    Attributes:
        centers_: ``(num_groups, dim)`` float64 centre of each group's sphere.
        radii_: ``(num_groups,)`` float64 radius of each group's sphere.
    """

    name: ClassVar[str] = "gne"

    steps: int = 6001
    sphere_steps: int = 10001
    lr: float = 0.003
    sphere_lr: float = 0.001

    centers_: Array = field(init=False)
    radii_: Array = field(init=False)

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        # The vectors are as good as the tree, so the tree is what there is to choose.
        return [{}, {"max_leaves": 30}, {"resolution": 2.0}, {"max_depth": 2}]

    def memory_bytes(self, graph: Graph, tree: Tree) -> int:
        """Return about how much memory a fit takes beyond the graph."""
        children = tree.num_children()
        widest, squares = int(children.max()), int((children**2).sum())
        # Every group's similarities in float64, and copies of one batch in float32.
        batch = max(widest * max(widest, self.dim), min(squares, BATCH_ENTRIES))
        rows = 40 * (graph.num_nodes + tree.num_groups) * self.dim + 40 * graph.num_stored
        return 8 * squares + _COPIES * 4 * batch + rows

    def _embed(self, graph: Graph, listener: Listener | None) -> None:
        self._check_counts("steps", "sphere_steps")
        linked = undirected(graph)
        tree = self._make_tree(linked)
        widest = int(tree.num_children().max())
        self._check_memory(
            self.memory_bytes(linked, tree),
            f"its widest group has {widest:,} children, give a deeper tree or a smaller dim",
        )
        rows = neighbor_rows(linked)
        alike, spread = [], []
        for group in range(tree.num_groups):
            similarity, deviation = sibling_similarity(rows, tree, group)
            alike.append(similarity)
            spread.append(deviation)

        def heard(number: int, total: int, groups: int) -> None:
            self.history_.append({"epoch": number, "groups": groups})
            if listener is not None and number == 1:
                listener.on_start(total, 0)
            if listener is not None:
                listener.on_epoch(number, self.history_[-1])

        places = place_on_spheres(
            alike,
            self.dim,
            derive_key(self.seed, "spheres"),
            self.steps,
            self.sphere_steps,
            self.lr,
            self.sphere_lr,
            heard,
        )
        if listener is not None and self.history_:
            listener.on_end("complete")
        coordinates = self._arrange(tree, places, alike, spread)
        self.embedding_ = coordinates.astype(np.float32)

    def _arrange(
        self, tree: Tree, places: list[Array], alike: list[Array], spread: list[Array | None]
    ) -> Array:
        """Walk down the tree; set centres and radii and return the leaves' coordinates."""
        self.centers_ = np.zeros((tree.num_groups, self.dim))
        self.radii_ = np.zeros(tree.num_groups)
        self.radii_[0] = 1.0
        out = np.zeros((len(tree.leaf_group), self.dim))
        for group in range(tree.num_groups):
            own, groups = tree.leaves(group), tree.children(group)
            spots = self.centers_[group] + self.radii_[group] * places[group]
            out[own] = spots[: len(own)]
            self.centers_[groups] = spots[len(own) :]
            deviation = spread[group]
            if deviation is None:
                continue
            similarity = alike[group][len(own) :]
            apart = cdist(spots[len(own) :], spots)
            known = similarity > 0
            share = np.where(known, deviation / (3 * np.where(known, similarity, 1.0)), 0.0)
            radius = (share * apart).sum(1) / known.sum(1)
            bounds = (0.05 * self.radii_[group], 0.25 * self.radii_[group])
            self.radii_[groups] = np.clip(radius, *bounds)
        return out

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "centers": self.centers_, "radii": self.radii_}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._restore(state, facts)
        self.centers_, self.radii_ = state["centers"], state["radii"]


def neighbor_rows(graph: Graph) -> Any:
    """Return the sparse B = D^-1/2 (A + I) whose rows' dot products are similarities."""
    ones = np.ones(graph.num_stored)
    shape = (graph.num_nodes, graph.num_nodes)
    links = sp.csr_matrix((ones, graph.indices, graph.indptr), shape=shape) + sp.identity(
        graph.num_nodes, format="csr"
    )
    return sp.csr_matrix(sp.diags(1 / np.sqrt(graph.degrees() + 1.0)) @ links)


def sibling_similarity(rows: Any, tree: Tree, group: int) -> tuple[Array, Array | None]:
    """Compare the children of one group.

    Args:
        rows: B of :func:`neighbor_rows`.
        tree: The tree.
        group: Number of the group.

    Returns:
        ``(children, children)`` similarities with a diagonal of 1, and the spread of each child
        group (rows: child groups only) around its mean; ``None`` where all children are leaves.
    """
    below, child = tree.rows_under(group)
    count, own = int(child[-1]) + 1, len(tree.leaves(group))
    sizes = np.bincount(child, minlength=count).astype(np.float64)
    inside = rows[below]
    shape = (count, len(below))
    gather = sp.csr_matrix((1 / sizes[child], (child, np.arange(len(below)))), shape=shape)
    means = sp.csr_matrix(gather @ inside)
    similarity = np.asarray((means @ means.T).todense(), dtype=np.float64)
    np.fill_diagonal(similarity, 1.0)
    if own == count:
        return similarity, None
    # In stretches of rows, because towards many siblings the table is nearly full.
    total, squares = np.zeros((count, count)), np.zeros((count, count))
    columns = sp.csr_matrix(means.T)
    for start in range(own, len(below), _CHUNK):
        end = min(start + _CHUNK, len(below))
        toward = sp.csr_matrix(inside[start:end] @ columns)
        some = gather[:, start:end]
        total += (some @ toward).todense()
        squares += (some @ toward.multiply(toward)).todense()
    deviation = np.sqrt(np.maximum(squares - total**2, 0.0))
    return similarity, np.asarray(deviation[own:])
