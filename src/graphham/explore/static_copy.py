"""``graphham explore --export``: the explorer as a folder of files that needs no server.

Browsers refuse to load modules and data from a folder, so the page's modules are put together
into one plain script, and the data becomes a script that sets one variable.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.explore.binary_columns import pack, shares
from graphham.explore.modules import (
    PLOTLY,
    bundle,
    exported_page,
    read_modules,
    static_folder,
)
from graphham.explore.queries import NUM_NEAREST, Explorer
from graphham.readout.neighbors import all_nearest
from graphham.report.html import script_json
from graphham.report.plotlyjs import plotly_path
from graphham.results.describe import feature_name
from graphham.system.atomic import sync
from graphham.system.scratch import scratch_beside

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

# A page without a server holds every node; more than this is too much for a browser to load.
MAX_NODES = 150_000
# Beyond this many nodes the nearest ones are left out: comparing all pairs takes too long.
_MAX_NEAREST_NODES = 30_000
_POLICY = (
    "default-src 'none'; script-src 'self' file: 'unsafe-eval'; style-src 'self' file: "
    "'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def export_static(
    run: Run | str | Path,
    folder: str | Path,
    graph: Graph | None = None,
    beside: Run | str | Path | None = None,
    new: str | Path | None = None,
) -> Path:
    """Write the explorer of a run as a folder; opening its ``index.html`` is enough.

    Renaming groups and exporting Parquet need the server and are left out.

    Args:
        run: The run, or its folder.
        folder: The folder to make; it must not exist.
        graph: The graph, for runs that do not keep it.
        beside: Another run, to show beside this one.
        new: A table of nodes embedded after the fit, to show on the map.
    """
    place = Path(folder)
    if place.exists() or place.is_symlink():
        raise InputError(f"{place} exists already; give another --export or remove it first")
    explorer = Explorer(run, graph, beside=beside, new=new)
    if explorer.view.num_nodes > MAX_NODES:
        raise InputError(
            f"the run has {explorer.view.num_nodes:,} nodes and a page without a server holds at "
            f"most {MAX_NODES:,}; use graphham explore without --export"
        )
    explorer.finish_map()
    files = {
        "index.html": exported_page(_POLICY).encode(),
        "app.css": (static_folder() / "app.css").read_bytes(),
        PLOTLY: plotly_path().read_bytes(),
        "app.js": bundle(read_modules()).encode(),
        "data.js": f"window.GRAPHHAM = {script_json(_data(explorer))};\n".encode(),
    }
    with scratch_beside(place) as scratch:
        try:
            page = scratch / "page"
            page.mkdir()
            for name, data in files.items():
                (page / name).write_bytes(data)
                sync(page / name)
            page.rename(place)
        except OSError as error:
            reason = f"cannot write {place}: {error.strerror}; choose another place"
            raise InputError(reason) from None
    return place


def _data(explorer: Explorer) -> dict[str, Any]:
    return {
        "overview": {**explorer.overview(), "isLarge": False},
        "points": base64.b64encode(_all_points(explorer)).decode(),
        "details": base64.b64encode(_details(explorer)).decode(),
        "beside": ""
        if explorer.beside is None
        else base64.b64encode(explorer.beside_points()).decode(),
    }


def _all_points(explorer: Explorer) -> bytes:
    explorer.is_large = False
    return explorer.points()


def _details(explorer: Explorer) -> bytes:
    """Pack what a server would look up: memberships, neighbours, attentions, features."""
    view = explorer.view
    columns: dict[str, Any] = {
        f"membership{level}": shares(member)
        for level, member in enumerate(view.result.memberships, 1)
    }
    meta: dict[str, Any] = {"near": 0}
    if view.num_nodes <= _MAX_NEAREST_NODES:
        near, similar = all_nearest(view.run.embedding, NUM_NEAREST)
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
