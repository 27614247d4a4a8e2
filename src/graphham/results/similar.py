"""The nodes most like one node, all over the graph or inside one group."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import InputError
from graphham.readout.neighbors import nearest_to
from graphham.results.hierarchy import Hierarchy
from graphham.results.result import FitResult

if TYPE_CHECKING:
    import pyarrow as pa


def similar_nodes(
    found: FitResult,
    tree: Hierarchy | None,
    node: int | str,
    count: int = 10,
    inside: str | None = None,
    titles: Any = None,
) -> pa.Table:
    """Return the nodes nearest to one by the cosine of their vectors, the nearest first.

    Exact; vectors may be mapped from a file, which is read once in pieces.

    Args:
        found: What a fit says about the nodes.
        tree: Its groups with their names, or ``None``.
        node: The user's own id.
        count: How many at most.
        inside: Only members of this group: ``LEVEL-GROUP``, such as ``2-5``, or its name.
        titles: One title per node, as an Arrow array.

    Returns:
        ``id``, ``title`` where there are titles, ``similarity``, and the group's name per level.
    """
    import pyarrow as pa

    if count < 1:
        raise InputError(f"count is {count}; ask for at least one node")
    row = found.ids.row(node)
    if inside is None:
        rows, similarity = nearest_to(found.embedding, row, count)
    else:
        if tree is None:
            raise InputError(
                "the fit found no groups, so there is none to look inside; leave it out"
            )
        level, group = find_group(tree, inside)
        members = np.flatnonzero(found.groups[level - 1] == group)
        # The one who asks comes first, whether it is a member or not.
        among = np.concatenate([[row], members[members != row]])
        near, similarity = nearest_to(np.asarray(found.embedding[among]), 0, count)
        rows = among[near]
    columns: dict[str, Any] = {"id": found.ids.take(rows).to_arrow()}
    if titles is not None:
        columns["title"] = titles.take(pa.array(rows))
    columns["similarity"] = pa.array(similarity)
    for level, codes in enumerate(found.groups, 1):
        names = None if tree is None else tree.names[level - 1]
        of_rows = codes[rows].tolist()
        columns[f"group_{level}"] = of_rows if names is None else [names[c] for c in of_rows]
    return pa.table(columns)


def find_group(tree: Hierarchy, text: str) -> tuple[int, int]:
    """Return level and group that ``LEVEL-GROUP`` or a name stands for.

    Raises:
        InputError: There is none, or several have the name.
    """
    numbers = re.fullmatch(r"(\d+)-(\d+)", text.strip())
    if numbers is not None:
        level, group = (int(part) for part in numbers.groups())
        if 1 <= level <= tree.num_levels and group < tree.group_counts[level - 1]:
            return level, group
        raise InputError(
            f"there is no group {text!r}; levels are 1 to {tree.num_levels}, with "
            f"{', '.join(map(str, tree.group_counts))} groups, counted from 0"
        )
    known = [(level, g) for level, names in enumerate(tree.names, 1) for g in range(len(names))]
    wanted = text.strip().casefold()
    found = [key for key in known if tree.names[key[0] - 1][key[1]].casefold() == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(f"{level}-{group}" for level, group in found)
        raise InputError(f"the groups {places} are all named {text!r}; give one of these numbers")
    names = [name for of_level in tree.names for name in of_level]
    near = difflib.get_close_matches(text, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'graphham info RUN' lists them"
    raise InputError(f"there is no group named {text!r}; {hint}")
