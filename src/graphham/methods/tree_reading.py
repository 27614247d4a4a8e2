"""Read a user's tree: nested JSON or an edge list, from a file or as Python values.

Nested: a list is a group of its items; ``{"name": ..., "children": [...]}`` is a named group;
``{"A": ..., "B": ...}`` is a group of named groups; a number or text is the id of a graph node.
Edge list: one ``parent child`` pair a line (blanks, tabs or commas), or ``{"edges": [[parent,
child], ...]}``; what is nobody's parent must be the id of a graph node.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.methods.community_tree import Tree


class _Group:
    """A group while it is read: a name and its items, groups or ids."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Any] = []


def read_tree(tree: Any, ids: NodeIds) -> Tree:
    """Read a tree whose leaves are the nodes of a graph, each exactly once.

    Args:
        tree: Path of a ``.json`` file or an edge list, or the values themselves.
        ids: The ids of the graph.

    Raises:
        InputError: The tree has cycles, a child of two parents, an empty group, unknown leaves, or
            lacks a node of the graph.
    """
    values = _read_file(Path(tree)) if isinstance(tree, str | Path) else tree
    if isinstance(values, dict) and set(values) == {"edges"}:
        root = _from_edges(values["edges"])
    elif isinstance(values, dict | list | tuple):
        root = _from_nested(values)
    else:
        raise InputError(
            f"a tree is a path, nested lists or dictionaries, or {{'edges': ...}}; "
            f"got {type(values).__name__}"
        )
    return _numbered(root, ids)


def _read_file(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise InputError(f"there is no tree file {path}; check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the tree file {path}: {error}") from error
    if path.suffix.lower() == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid JSON ({error}); correct the file") from error
    pairs = []
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for number, line in enumerate(lines, 1):
        mark = "\t" if "\t" in line else "," if "," in line else None
        parts = line.split() if mark is None else next(csv.reader([line], delimiter=mark))
        if len(parts) != 2:
            raise InputError(f"line {line!r} of {path} is no 'parent child' pair; give two columns")
        if number > 1 or [p.strip().lower() for p in parts] != ["parent", "child"]:
            pairs.append([part.strip() for part in parts])
    return {"edges": pairs}


def _from_nested(values: Any) -> _Group:
    root = _Group("root")
    # An explicit list of what is left to read: a deep tree must not exhaust the call stack.
    waiting: deque[tuple[_Group, Any]] = deque([(root, values)])
    while waiting:
        group, value = waiting.popleft()
        if isinstance(value, dict) and "children" in value:
            group.name = str(value.get("name", group.name))
            value = value["children"]
        if isinstance(value, dict):
            for name, inner in value.items():
                group.items.append(_Group(str(name)))
                waiting.append((group.items[-1], inner))
            continue
        if not isinstance(value, list | tuple):
            value = [value]
        for number, item in enumerate(value):
            if isinstance(item, dict) and "children" not in item:
                only = item.get("id", item.get("name"))
                item = only if isinstance(only, str | int) else item
            if isinstance(item, dict | list | tuple):
                group.items.append(_Group(f"{group.name}.{number + 1}"))
                waiting.append((group.items[-1], item))
            elif isinstance(item, str | int) and not isinstance(item, bool):
                group.items.append(item)
            else:
                raise InputError(f"the tree holds {item!r}, which is neither a group nor an id")
    return root


def _from_edges(edges: Any) -> _Group:
    groups: dict[str, _Group] = {}
    above: dict[str, str] = {}
    pairs = []
    for edge in edges:
        if not isinstance(edge, list | tuple) or len(edge) != 2:
            raise InputError(f"{edge!r} is no [parent, child] pair; give two values per edge")
        parent, child = str(edge[0]), str(edge[1])
        if above.setdefault(child, parent) != parent:
            raise InputError(
                f"{child!r} lies below {above[child]!r} and {parent!r}; a tree has one parent each"
            )
        groups.setdefault(parent, _Group(parent))
        pairs.append((parent, child))
    for parent, child in dict.fromkeys(pairs):
        groups[parent].items.append(groups.get(child, child))
    tops = [group for name, group in groups.items() if name not in above]
    if not tops:
        raise InputError(
            "the tree has no root: every parent is itself a child, so there is a cycle"
        )
    root = tops[0]
    if len(tops) > 1:
        root = _Group("root")
        root.items.extend(tops)
    seen, waiting = 0, deque(tops)
    while waiting:
        group = waiting.popleft()
        seen += 1
        waiting.extend(item for item in group.items if isinstance(item, _Group))
    if seen < len(groups):
        raise InputError(f"{len(groups) - seen} groups of the tree form a cycle; break it")
    return root


def _numbered(root: _Group, ids: NodeIds) -> Tree:
    """Number the groups level by level and find the graph row of every leaf."""
    parent: list[int] = []
    names: list[str] = []
    values: list[Any] = []
    holders: list[int] = []
    waiting: deque[tuple[_Group, int]] = deque([(root, -1)])
    while waiting:
        group, above = waiting.popleft()
        # A group of one group adds nothing: the outer name stays, the inner items count.
        items = group.items
        while len(items) == 1 and isinstance(items[0], _Group):
            items = items[0].items
        if not items:
            raise InputError(f"the group {group.name!r} of the tree is empty; remove it")
        number = len(parent)
        parent.append(above)
        names.append(group.name)
        for item in items:
            if isinstance(item, _Group):
                waiting.append((item, number))
            else:
                values.append(item)
                holders.append(number)
    rows = ids.rows(values, "tree leaf")
    counts = np.bincount(rows, minlength=len(ids))
    if counts.max() > 1:
        raise InputError(f"node {ids[int(counts.argmax())]!r} is in the tree twice; keep one place")
    if counts.min() == 0:
        missing = int((counts == 0).sum())
        raise InputError(
            f"node {ids[int(counts.argmin())]!r} is missing from the tree ({missing:,} in all); "
            f"give every node a place"
        )
    leaf_group = np.empty(len(ids), dtype=np.int64)
    leaf_group[rows] = holders
    return Tree(np.asarray(parent, dtype=np.int64), leaf_group, tuple(names))
