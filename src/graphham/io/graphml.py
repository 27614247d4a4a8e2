"""Read GraphML without trusting it: no entities, no external files, nothing executed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphham.errors import InputError
from graphham.io.files import Raw, check_unpacked
from graphham.io.weights import advice_for, is_usable

_PIECE = 1 << 20
_TOKEN_BYTES = 1 << 26
_NUMERIC = {"int", "long", "float", "double", "boolean"}


@dataclass
class Key:
    """One attribute a GraphML file declares."""

    name: str
    kind: str
    domain: str
    default: str | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether the declared type is a number or a truth value."""
        return self.kind in _NUMERIC


@dataclass
class GraphmlContent:
    """What a GraphML file holds, still as text."""

    nodes: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    directed: bool = False
    keys: dict[str, Key] = field(default_factory=dict)
    node_data: dict[str, dict[int, str]] = field(default_factory=dict)
    edge_data: dict[str, dict[int, str]] = field(default_factory=dict)
    path: Path = Path()
    num_bytes: int = 0

    def edge_numbers(self, name: str, origin: str) -> npt.NDArray[np.float64]:
        """Return a numeric edge attribute, one positive value per edge."""
        candidates = [k for k, key in self.keys.items() if key.domain in ("edge", "all")]
        matches = [k for k in candidates if self.keys[k].name == name]
        if not matches:
            known = ", ".join(self.keys[k].name for k in candidates) or "none"
            raise InputError(
                f"{origin} has no edge attribute {name!r}; its edge attributes: {known}"
            )
        default = self.keys[matches[0]].default
        given = self.edge_data.get(matches[0], {})
        values = np.empty(len(self.source))
        for i in range(len(values)):
            text = given.get(i, default)
            try:
                values[i] = float(text or "")
            except ValueError:
                values[i] = np.nan
            if not is_usable(values[i]):
                raise InputError(
                    f"the edge {self.source[i]!r} - {self.target[i]!r} of {origin} has {text!r} as "
                    f"its {name!r}; {advice_for(float(values[i]))}"
                )
        return values

    def node_table(self) -> pa.Table:
        """Return the node attributes as a table whose first column is ``id``."""
        self._check_table_size()
        columns: dict[str, pa.Array] = {"id": pa.array(self.nodes, pa.large_string())}
        for code, key in self.keys.items():
            if key.domain not in ("node", "all") or key.name in columns:
                continue
            given = self.node_data.get(code, {})
            texts = [given.get(i, key.default) for i in range(len(self.nodes))]
            columns[key.name] = _typed(texts, key.kind)
        return pa.table(columns)

    def _check_table_size(self) -> None:
        """Refuse a table far larger than the file: every attribute has a cell for every node."""
        cells = 0
        for code, key in self.keys.items():
            if key.domain in ("node", "all"):
                absent = len(self.nodes) - len(self.node_data.get(code, {}))
                cells += 8 * len(self.nodes) + absent * len(key.default or "")
        check_unpacked(self.path, self.num_bytes, cells)


def read_graphml(path: Path, raw: Raw) -> GraphmlContent:
    """Parse a GraphML file; entity declarations, which can explode or read files, are refused."""
    reader = _Reader(path)
    try:
        for start in range(0, len(raw), _PIECE):
            reader.parser.Parse(raw[start : start + _PIECE], False)
            # What is not understood yet is looked at again with every piece.
            if start - reader.parser.CurrentByteIndex > _TOKEN_BYTES:
                raise InputError(
                    f"{path} has a tag or a comment of more than {_TOKEN_BYTES >> 20} MiB; that is "
                    f"no GraphML graph"
                )
        reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise InputError(
            f"{path} is not well-formed GraphML ({expat.ErrorString(error.code)}, line "
            f"{error.lineno:,}); it may be cut short, write it again"
        ) from None
    except (ValueError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:100]
        raise InputError(
            f"{path} declares an encoding that cannot be read ({reason}); save it as UTF-8"
        ) from None
    if not reader.seen_graph:
        raise InputError(f"{path} is XML but holds no GraphML graph; give a GraphML file")
    content = reader.content
    content.path, content.num_bytes = path, len(raw)
    known = set(content.nodes)
    if len(known) < len(content.nodes):
        once: set[str] = set()
        twice = next(n for n in content.nodes if n in once or once.add(n))  # type: ignore[func-returns-value]
        raise InputError(f"the node id {twice!r} occurs twice in {path}; ids must be distinct")
    for end in (*content.source, *content.target):
        if end not in known:
            raise InputError(f"{path} has an edge to {end!r}, which is not one of its nodes")
    return content


class _Reader:
    """Expat callbacks that fill a :class:`GraphmlContent`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = GraphmlContent()
        self.seen_graph = False
        self._owner: str | None = None  # "node" or "edge" while inside one
        self._key: str | None = None
        self._default_of: Key | None = None
        self._text: list[str] = []
        self._collects = False
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.ExternalEntityRefHandler = self._refuse_entity

    def _refuse_entity(self, *_: Any) -> int:
        raise InputError(
            f"{self.path} declares XML entities, which are refused because they can be used for "
            f"attacks; write the file without a DOCTYPE"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        content = self.content
        if tag == "node":
            content.nodes.append(self._needed(tag, attributes, "id"))
            self._owner = "node"
        elif tag == "edge":
            content.source.append(self._needed(tag, attributes, "source"))
            content.target.append(self._needed(tag, attributes, "target"))
            self._owner = "edge"
        elif tag == "data":
            self._key, self._text, self._collects = attributes.get("key"), [], True
        elif tag == "key":
            code = self._needed(tag, attributes, "id")
            self._default_of = content.keys[code] = Key(
                attributes.get("attr.name", code),
                attributes.get("attr.type", "string"),
                attributes.get("for", "all"),
            )
        elif tag == "default":
            self._text, self._collects = [], True
        elif tag == "graph":
            self.seen_graph = True
            content.directed |= attributes.get("edgedefault") == "directed"
        elif tag == "hyperedge":
            raise InputError(f"{self.path} has hyperedges; give edges between two nodes")

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(" ")[2]
        content = self.content
        if tag in ("data", "default"):
            self._collects = False
        if tag == "data":
            if self._key is not None and self._owner == "node":
                values = content.node_data.setdefault(self._key, {})
                values[len(content.nodes) - 1] = "".join(self._text)
            elif self._key is not None and self._owner == "edge":
                values = content.edge_data.setdefault(self._key, {})
                values[len(content.source) - 1] = "".join(self._text)
            self._key = None
        elif tag == "default" and self._default_of is not None:
            self._default_of.default = "".join(self._text)
        elif tag in ("node", "edge"):
            self._owner = None

    def _characters(self, text: str) -> None:
        if self._collects:
            self._text.append(text)

    def _needed(self, tag: str, attributes: dict[str, str], name: str) -> str:
        value = attributes.get(name)
        if value is None:
            line = self.parser.CurrentLineNumber
            raise InputError(f"line {line:,} of {self.path} has a <{tag}> without {name!r}")
        return value


def _typed(texts: list[str | None], kind: str) -> pa.Array:
    """Convert cells of a declared numeric type; cells that do not fit leave the column text."""
    try:
        if kind in ("int", "long"):
            return pa.array([None if t is None else int(t) for t in texts], pa.int64())
        if kind in ("float", "double"):
            return pa.array([None if t is None else float(t) for t in texts], pa.float64())
    except (ValueError, OverflowError):
        pass
    if kind == "boolean":
        return pa.array([None if t is None else t.strip().lower() in ("true", "1") for t in texts])
    return pa.array(texts, pa.large_string())
