"""A run folder as one zip file, to pass on; :meth:`Run.open` opens it as it is."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from graphham.results.run_folder import DERIVED, GRAPH_FOLDER, NAMES_FILE, Run

if TYPE_CHECKING:
    from graphham.graph.graph import Graph


def write_zip(run: Run, path: Path, graph: Graph | None = None) -> list[str]:
    """Write a run folder as a zip that :meth:`Run.open` opens; map and report are left out.

    Args:
        run: The run.
        path: The file to write.
        graph: Not used; the graph goes along where the run keeps it.
    """
    left_out = {name for name in DERIVED if name != NAMES_FILE}
    name = run.path.resolve().name
    files = [f for f in sorted(run.path.rglob("*")) if f.is_file() and f.name not in left_out]
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in files:
            inside = file.relative_to(run.path)
            if not any(part.startswith((".", "checkpoint")) for part in inside.parts):
                archive.write(file, f"{name}/{inside.as_posix()}")
    if run.keeps_graph:
        return [f"{GRAPH_FOLDER}/ is inside: whoever gets the file gets the graph"]
    return []
