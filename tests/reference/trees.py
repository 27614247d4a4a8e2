"""What every tree of communities promises, checked group by group."""

from __future__ import annotations

import numpy as np

from graphham.methods.community_tree import Tree


def check_tree(tree: Tree, num_nodes: int) -> None:
    """Every promise of a tree, checked group by group."""
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, tree.num_groups)).all()
    assert (tree.parent[1:] >= 0).all()
    assert tree.sizes[0] == num_nodes
    assert (tree.num_children() > 0).all()
    for group in range(tree.num_groups):
        rows, child = tree.rows_under(group)
        climbing = tree.leaf_group.copy()
        inside = np.zeros(num_nodes, dtype=bool)
        while (climbing >= 0).any():
            inside |= climbing == group
            climbing = np.where(climbing > 0, tree.parent[climbing], -1)
        assert sorted(rows.tolist()) == np.flatnonzero(inside).tolist()
        own = tree.leaves(group)
        for number, part in enumerate([*own, *tree.children(group)]):
            found = rows[child == number]
            wanted = [part] if number < len(own) else tree.rows_under(int(part))[0]
            assert sorted(found.tolist()) == sorted(np.asarray(wanted).tolist())
