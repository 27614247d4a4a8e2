"""``graphham explore --export``: the explorer as a folder of files that needs no server.

Browsers refuse to load modules and data from a folder, so the page's modules are put together
into one plain script, and the data becomes a script that sets one variable.
"""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.explore.binary_columns import pack, shares
from graphham.explore.guard import PLOTLY, static_files
from graphham.explore.queries import Explorer
from graphham.readout.neighbors import all_nearest
from graphham.report.html import script_json
from graphham.report.plotlyjs import plotly_path
from graphham.results.describe import feature_name
from graphham.system.atomic import remove_folder, sync

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

# A page without a server holds every node; more than this is too much for a browser to load.
MAX_NODES = 150_000
_EXACT_NEAREST = 30_000
_NEAR = 8
# In this order every module comes after the ones it imports.
MODULES = (
    "dom.js",
    "wire.js",
    "source.js",
    "state.js",
    "model.js",
    "paint.js",
    "gestures.js",
    "map.js",
    "hierarchy.js",
    "ego.js",
    "panel.js",
    "table.js",
    "search.js",
    "main.js",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_POLICY = (
    "default-src 'none'; script-src 'self' file: 'unsafe-eval'; style-src 'self' file: "
    "'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def export_static(run: Run | str | Path, folder: str | Path, graph: Graph | None = None) -> Path:
    """Write the explorer of a run as a folder; opening its ``index.html`` is enough.

    Renaming groups and exporting Parquet need the server and are left out.

    Args:
        run: The run, or its folder.
        folder: The folder to make; it must not exist.
        graph: The graph, for runs that do not keep it.
    """
    place = Path(folder)
    if place.exists() or place.is_symlink():
        raise InputError(f"{place} exists already; give another --export or remove it first")
    explorer = Explorer(run, graph)
    if explorer.view.num_nodes > MAX_NODES:
        raise InputError(
            f"the run has {explorer.view.num_nodes:,} nodes and a page without a server holds at "
            f"most {MAX_NODES:,}; use graphham explore without --export"
        )
    explorer.finish_map()
    pages = static_files()
    files = {
        "index.html": _index(pages["index.html"][0].decode()).encode(),
        "app.css": pages["app.css"][0],
        PLOTLY: plotly_path().read_bytes(),
        "app.js": bundle({name: pages[name][0].decode() for name in MODULES}).encode(),
        "data.js": f"window.GRAPHHAM = {script_json(_data(explorer))};\n".encode(),
    }
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise InputError(f"cannot write {place}: {error.strerror}; choose another place") from None
    try:
        temporary.chmod(0o755)
        for name, data in files.items():
            (temporary / name).write_bytes(data)
            sync(temporary / name)
        temporary.rename(place)
    finally:
        remove_folder(temporary)
    return place


def bundle(modules: dict[str, str]) -> str:
    """Put the page's modules together into one plain script.

    Every module's own names live in one scope then, so no two modules may share a name; a test
    holds them to it.
    """
    parts = ['"use strict";\n(() => {\n']
    for name in MODULES:
        text = _IMPORT.sub("", modules[name])
        text = re.sub(r"^export (?=(async )?(function|const|let|class) )", "", text, flags=re.M)
        if re.search(r"^(import|export)\b", text, re.M):
            raise ValueError(f"{name} imports or exports in a way that bundle() does not know")
        parts.append(f"// {name}\n{text}")
    return "".join([*parts, "})();\n"])


def _index(page: str) -> str:
    head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{head}')
    page = re.sub(r'<link rel="(module)?preload"[^>]*>\n', "", page).replace("static/", "")
    return page.replace(
        '<script type="module" src="main.js"></script>',
        '<script src="data.js" defer></script>\n<script src="app.js" defer></script>',
    )


def _data(explorer: Explorer) -> dict[str, Any]:
    return {
        "overview": {**explorer.overview(), "isLarge": False},
        "points": base64.b64encode(_all_points(explorer)).decode(),
        "details": base64.b64encode(_details(explorer)).decode(),
    }


def _all_points(explorer: Explorer) -> bytes:
    explorer.is_large = False
    return explorer.points()


def _details(explorer: Explorer) -> bytes:
    """Pack what the server would be asked for: memberships, neighbours, attentions, features."""
    view = explorer.view
    columns: dict[str, Any] = {
        f"membership{level}": shares(member)
        for level, member in enumerate(view.result.memberships, 1)
    }
    meta: dict[str, Any] = {"near": 0}
    if view.num_nodes <= _EXACT_NEAREST:
        near, similar = all_nearest(view.run.embedding, _NEAR)
        columns |= {"near": near.astype(np.uint32), "similar": similar}
        meta["near"] = near.shape[1]
    graph = view.graph
    if graph is not None:
        columns["indptr"] = graph.indptr.astype(np.uint32)
        columns["indices"] = graph.indices.astype(np.uint32)
        for number, layer in enumerate(explorer.attention.layers(), 1):
            columns |= {
                f"indptr_{number}": layer.indptr.astype(np.uint32),
                f"indices_{number}": np.asarray(layer.indices).astype(np.uint32),
                f"node_{number}": shares(layer.node),
                f"group_{number}": shares(layer.group),
                f"weight_{number}": shares(layer.weight),
            }
        x: Any = graph.features
        if sp.issparse(x):
            columns["feature_indptr"] = x.indptr.astype(np.uint32)
            columns["feature_indices"] = x.indices.astype(np.uint32)
            columns["feature_names"] = [feature_name(graph, c) for c in range(x.shape[1])]
    return pack(columns, meta)
