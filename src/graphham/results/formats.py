"""The formats that a run is exported in, one line each; loaded when used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

    Writer: TypeAlias = Callable[[Run, Path, Graph | None], list[str]]


@dataclass(frozen=True)
class Format:
    """A format to export to.

    Args:
        place: ``module:function`` below ``graphham.results``. The function takes the run, the file
            to write and the graph, and returns notes for the user.
        suffixes: Ends of file names that mean this format.
        needs_graph: Whether the graph is written too; the function gets ``None`` otherwise.
        is_folder: Whether the format is a folder of files; the function gets an empty one.
    """

    place: str
    suffixes: tuple[str, ...]
    needs_graph: bool = False
    is_folder: bool = False

    def writer(self) -> Writer:
        """Load the function that writes the format."""
        module, name = self.place.split(":")
        found: Writer = getattr(importlib.import_module(f"graphham.results.{module}"), name)
        return found


FORMATS = {
    "parquet": Format("export:write_parquet", (".parquet", ".pq")),
    "csv": Format("export:write_csv", (".csv",)),
    "word2vec": Format("export:write_word2vec", (".txt", ".vec")),
    "graphml": Format("export:write_graphml", (".graphml",), needs_graph=True),
    "pyg": Format("export:write_pyg", (".npz",), needs_graph=True),
    # Parquet too, so that only --format can ask for it.
    "edges": Format("edge_export:write_edges", (), needs_graph=True),
    "zip": Format("run_archive:write_zip", (".zip",)),
    "graphrag": Format("graphrag:write_graphrag", (), needs_graph=True, is_folder=True),
}


def format_of(path: Path) -> str | None:
    """Return the format that a file's name means; ``None`` if it means none."""
    suffix = path.suffix.lower()
    return next((name for name, form in FORMATS.items() if suffix in form.suffixes), None)


def find_format(name: str) -> Format:
    """Return a format by name.

    Raises:
        InputError: There is none; the nearest name is suggested.
    """
    if name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"unknown format {name!r}{hint}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]
