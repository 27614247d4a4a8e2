"""Start the explorer: a free port on this machine, the server, and the browser."""

from __future__ import annotations

import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.report.text import need

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.explore.answers import Explorer
    from graphham.graph import Graph
    from graphham.saved import Run

HOST = "127.0.0.1"


class RunningExplorer:
    """An explorer that serves in a thread of its own, for notebooks and tests.

    Args:
        run: The run, or its folder.
        port: Port on 127.0.0.1; 0 takes a free one.
        graph: The graph, for runs that do not keep it.
    """

    def __init__(self, run: Run | str | Path, port: int = 0, graph: Graph | None = None) -> None:
        self._socket = _listen(port)
        try:
            server, self.explorer, self._worker = _prepare(run, self._socket, graph)
        except BaseException:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        self._server = server
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/"

    def selection(self) -> pa.Table:
        """Return the nodes chosen in the page, by lasso, group or search, as a table.

        One row per node, as in ``nodes.parquet``, with group names and map places; the page is
        asked for nothing: it tells the server whenever somebody chooses.
        """
        return self.explorer.selection()

    def stop(self) -> None:
        """Stop serving and wait until it has."""
        self._server.should_exit = True
        self.explorer.stop()
        self._thread.join(timeout=10)
        # A process that ends while torch computes in a thread is aborted by the system.
        self._worker.join(timeout=120)
        self.explorer.attention.join(timeout=120)
        self._socket.close()

    def __enter__(self) -> RunningExplorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RunningExplorer({self.address})"

    def _repr_html_(self) -> str:
        """Show a link in a notebook."""
        return f'<a href="{self.address}" target="_blank">Explore the run at {self.address}</a>'


def serve(
    run: Run | str | Path,
    port: int = 0,
    graph: Graph | None = None,
    open_browser: bool = True,
    announce: Callable[[str], Any] = print,
) -> None:
    """Serve a run until Ctrl-C.

    Args:
        run: The run, or its folder.
        port: Port on 127.0.0.1; 0 takes a free one.
        graph: The graph, for runs that do not keep it.
        open_browser: Open the page in the user's browser.
        announce: Called with the address.
    """
    listening = _listen(port)
    with listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/"
        announce(address)
        if open_browser:
            # The browser starts while the run is still being read.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server, explorer, worker = _prepare(run, listening, graph)
        try:
            server.run(sockets=[listening])
        finally:
            explorer.stop()
            worker.join(timeout=1)
            if worker.is_alive() or not explorer.attention.join(timeout=0):
                # Numerical code in a thread cannot be stopped and would be aborted with a message
                # that frightens people. Files are replaced whole, so nothing is cut short.
                os._exit(0)


def _prepare(
    run: Run | str | Path, listening: socket.socket, graph: Graph | None
) -> tuple[Any, Explorer, threading.Thread]:
    import uvicorn

    from graphham.explore.answers import Explorer
    from graphham.explore.server import make_app

    explorer = Explorer(run, graph)
    app = make_app(explorer, int(listening.getsockname()[1]))
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="off", ws="none", server_header=False
    )
    worker = threading.Thread(target=explorer.prepare_later, daemon=True)
    worker.start()
    return uvicorn.Server(config), explorer, worker


def _listen(port: int) -> socket.socket:
    """Take the port; whoever asks before the server is there waits for its first answer."""
    need("fastapi", "the explorer")
    need("uvicorn", "the explorer")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); leave out --port to take a free one"
        ) from None
    listening.listen(64)
    return listening
