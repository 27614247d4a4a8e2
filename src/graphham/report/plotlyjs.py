"""The scripts of the pages: plotly.js from the installed plotly, and what all pages share."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path

from graphham.errors import InputError

FIGURE_TOOLS = "figure_tools.js"


def figure_tools() -> str:
    """Return the JavaScript module of functions that report and explorer share."""
    return (files("graphham.report") / "templates" / FIGURE_TOOLS).read_text("utf-8")


def plotly_path() -> Path:
    """Return where plotly.js lies."""
    # The file itself: importing plotly for it takes longer than reading it.
    spec = importlib.util.find_spec("plotly")
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in folders:
        file = Path(folder) / "package_data" / "plotly.min.js"
        if file.is_file():
            return file
    raise InputError("the installed plotly has no plotly.min.js; pip install 'graphham[view]'")


def plotly_source() -> str:
    """Return plotly.js fit to stand inside a page."""
    source = plotly_script().decode("utf-8")
    return source.replace("\r\n", "\n").replace("</script", "<\\/script")


def plotly_script() -> bytes:
    """Return plotly.js as a script of its own, which a browser starts sooner.

    All of plotly is one function that is handed to another one. A browser takes such a function
    for one that may never be called, skims it, and reads it anew on the call. Parentheses say that
    it is called at once: the browser then compiles it beside the page, while it arrives.
    """
    source = plotly_path().read_bytes()
    head, begin, body = source.partition(b": this, () => {")
    rest, end, tail = body.rpartition(b"}));")
    if not begin or not end or tail.strip() or len(head) > 1000:
        return source  # another build of plotly: as it is
    return head + b": this, (() => {" + rest + b"})));" + tail
