"""What GNE and SpaceNE share: the tree they embed along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from graphham.graph.graph import Graph
from graphham.methods.community_tree import Tree, build_tree
from graphham.methods.label_free import LabelFreeMethod
from graphham.methods.parameters import keyword_settings
from graphham.methods.tree_reading import read_tree
from graphham.system.atomic import write_json


@keyword_settings
class TreeMethod(LabelFreeMethod):
    """A method that needs a tree of communities: the user's, or one built from the graph.

    Args:
        tree: The user's tree (see ``tree_reading``): the path of an edge list or of nested JSON,
            or the values themselves; built from the graph when not given.
        max_leaves: A community of no more nodes is not split when a tree is built.
        max_depth: Levels of groups of a built tree.
        resolution: Above 1 for smaller communities of a built tree.
        **settings: Those of :class:`LabelFreeMethod`.

    Attributes:
        tree_: The tree.
    """

    tree: Any = None
    max_leaves: int = 100
    max_depth: int = 3
    resolution: float = 1.0

    tree_: Tree = field(init=False)

    def _make_tree(self, graph: Graph) -> Tree:
        """Read or build the tree, and set ``tree_`` and ``levels_``."""
        if self.tree is not None:
            self.tree_ = read_tree(self.tree, graph.ids)
        else:
            self.tree_ = build_tree(
                graph,
                self.seed,
                max_leaves=self.max_leaves,
                max_depth=self.max_depth,
                resolution=self.resolution,
            )
        self.levels_ = self.tree_.levels()
        return self.tree_

    def write_outputs(self, folder: Path) -> list[str]:
        """Write the tree as nested JSON with the user's ids, in the form ``tree`` takes."""
        write_json(folder / "tree.json", self.tree_.nested(self.ids_))
        return ["tree.json"]

    def _state(self) -> dict[str, Any]:
        return self.tree_.state()

    def _facts(self) -> dict[str, Any]:
        return {"tree_names": list(self.tree_.names)}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.tree_ = Tree.from_state(state, facts["tree_names"])
