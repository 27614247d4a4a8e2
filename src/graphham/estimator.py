"""The face for Python users: GraphHAM, loading any run, and looking at any fit."""

from __future__ import annotations

import shutil
import tempfile
import weakref
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.methods.base import Method
from graphham.methods.graphham import GraphHAM
from graphham.methods.registry import load_method

if TYPE_CHECKING:
    from graphham.explore.launch import RunningExplorer

__all__ = ["GraphHAM", "load", "open_explorer"]


def load(path: str | Path, graph: Any = None) -> Method:
    """Return the fit that a run folder holds, ready to transform other graphs.

    Args:
        path: The run folder, or a zip of it; a run of GraphHAM gives a :class:`GraphHAM`, a run of
            another method an object of its class.
        graph: The graph it was fitted on, in any form ``fit`` takes; ``explain``, ``groups_table``
            and ``save`` need it where the run does not hold it.
    """
    return load_method(path, graph)


def open_explorer(model: Method, port: int = 0, open_browser: bool = True) -> RunningExplorer:
    """Serve the explorer of a fit; one that is in no run folder is written to a temporary one.

    Args:
        model: A fitted method.
        port: Port on 127.0.0.1; 0 takes a free one.
        open_browser: Open the page; otherwise only its address is returned.
    """
    from graphham.explore.launch import RunningExplorer

    place, scratch = model._folder, None
    if place is None or not place.exists():
        scratch = tempfile.mkdtemp(prefix="graphham-")
        place = model.save(Path(scratch) / "run").path
        model._folder = None  # the folder goes with the explorer
    running = RunningExplorer(place, port, model._graph)
    if scratch is not None:
        weakref.finalize(running, shutil.rmtree, scratch, ignore_errors=True)
    if open_browser:
        webbrowser.open(running.address)
    return running
