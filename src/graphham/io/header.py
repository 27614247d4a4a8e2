"""Decide whether the first row of a text table holds column names or data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphham.io.text import is_integer, is_number

# Names people give to endpoint columns, with an optional "id", "node" or number around them.
_ENDPOINT = re.compile(
    r"(?:source|target|src|dst|dest|destination|from|to|head|tail|start|end|origin|left|right"
    r"|node|vertex|u|v|i|j|id)(?:node|vertex|id|name|idx)?[0-9ab]?"
)
# Pairs nobody gives to two linked nodes on the first line: a header even if a node has such a name.
_PAIRS = {
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("source", "destination")),
    *(("id1", "id2"), ("node1", "node2"), ("sourceid", "targetid"), ("fromid", "toid")),
    *(("fromnodeid", "tonodeid"), ("sourcenode", "targetnode"), ("nodeid1", "nodeid2")),
}
_ID = re.compile(
    r"(?:(?:node|vertex|item|user|page|paper)(?:id|name|idx|key)?s?|ids?|names?|key|index|idx)?"
)
_LABEL = re.compile(
    r"(?:node|true|page)?(?:label|class|y|target|category|type|group)s?(?:id|name)?"
)
_MISSING = {"", "na", "n/a", "nan", "null", "none"}


def is_edge_header(rows: Sequence[Sequence[str]], source: int = 0, target: int = 1) -> bool:
    """Tell whether the first row of an edge table is a header.

    It is one when its endpoint fields are an unmistakable pair (source and target, from and to, src
    and dst, id_1 and id_2, node1 and node2, and the like). Otherwise it is one when neither field
    occurs as an id in the rows below (of the first 256 KB) and one of these holds: both fields are
    well-known endpoint names (u, v, head, tail, start, end, ...); an endpoint field is not a whole
    number although all ids below it are; or a further field is text although all values below it
    are numbers. A file of a single row is a header only if both its fields are well-known names.

    Args:
        rows: The first rows of the file, split into fields.
        source: Position of the first endpoint.
        target: Position of the second endpoint.
    """
    first, below = [f.strip() for f in rows[0]], rows[1:]
    if is_sure_header([first[source], first[target]]):
        return True
    known = all(_ENDPOINT.fullmatch(_plain(first[i])) for i in (source, target))
    if not below:
        return known and first[source] != first[target]
    seen = {row[i].strip() for row in below for i in (source, target) if i < len(row)}
    if first[source] in seen or first[target] in seen:
        return False
    if known and first[source] != first[target]:
        return True
    for i in (source, target):
        if not is_integer(first[i]) and all(is_integer(r[i]) for r in below if i < len(r)):
            return True
    return any(
        _is_name(first[i]) and _all_numbers(below, i)
        for i in range(len(first))
        if i not in (source, target)
    )


def is_sure_header(fields: Sequence[str]) -> bool:
    """Whether the first two fields are a pair of endpoint names that leaves no doubt."""
    return (_plain(fields[0]), _plain(fields[1])) in _PAIRS


def is_table_header(
    rows: Sequence[Sequence[str]], is_node: bool, is_numeric: bool, key: int = 0
) -> bool:
    """Tell whether the first row of a feature or label table is a header.

    In a table of numbers it is one when a field other than the id is text. Otherwise a row whose id
    field is a node of the graph is data. Of the rest it is a header when a field is text over
    numbers, when the id field is text over whole numbers, or when the id field is a well-known name
    (id, node, name, ...) or the second field one for labels (label, class, y, ...) that does not
    occur below.

    Args:
        rows: The first rows of the file, split into fields.
        is_node: Whether the id field of the first row is a node of the graph.
        is_numeric: Whether all columns but the id must be numbers.
        key: Position of the id.
    """
    first, below = [f.strip() for f in rows[0]], rows[1:]
    others = [i for i in range(len(first)) if i != key]
    named = bool(below) and any(_is_name(first[i]) and _all_numbers(below, i) for i in others)
    if is_node:
        return is_numeric and named
    if named:
        return True
    if (
        below
        and not is_integer(first[key])
        and all(is_integer(r[key]) for r in below if len(r) > key)
    ):
        return True
    seen = {row[i].strip() for row in below for i in range(len(row))}
    if first[key] not in seen and _ID.fullmatch(_plain(first[key])):
        return True
    return any(first[i] not in seen and _LABEL.fullmatch(_plain(first[i])) for i in others[:1])


def _plain(field: str) -> str:
    return re.sub(r"[\s_\-.:~]", "", field).casefold()


def _is_name(field: str) -> bool:
    return field.casefold() not in _MISSING and not is_number(field)


def _all_numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    cells = [r[column].strip() for r in rows if column < len(r)]
    filled = [c for c in cells if c.casefold() not in _MISSING]
    return bool(filled) and all(is_number(c) for c in filled)
