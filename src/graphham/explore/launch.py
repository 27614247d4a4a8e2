"""Start the explorer: a free port on this machine, the server, and the browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.report.safe_text import need

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.explore.guard import App
    from graphham.explore.queries import Explorer
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

HOST = "127.0.0.1"


@dataclass(frozen=True)
class _Asked:
    """What to show: a run, its graph where it is not kept, and what stands beside it."""

    run: Run | str | Path
    graph: Graph | None
    beside: Run | str | Path | None
    new: str | Path | None


class RunningExplorer:
    """An explorer that serves in a thread of its own, for notebooks and tests.

    Args:
        run: The run, or its folder.
        port: Port on 127.0.0.1; 0 takes a free one.
        graph: The graph, for runs that do not keep it.
        has_token: Let only those in who have the whole address, with its token.
        beside: Another run, to show beside this one.
        new: A table of nodes embedded after the fit, to show on the map.
    """

    def __init__(
        self,
        run: Run | str | Path,
        port: int = 0,
        graph: Graph | None = None,
        has_token: bool = True,
        beside: Run | str | Path | None = None,
        new: str | Path | None = None,
    ) -> None:
        self._socket = _listen(port)
        self.port = int(self._socket.getsockname()[1])
        self.token = _new_token(has_token)
        app: Future[App] = Future()
        try:
            self._server = _make_server(self.port, app, self.token)
            self.explorer = _read(_Asked(run, graph, beside, new), app)
        except BaseException:
            self._socket.close()
            raise
        self._worker = threading.Thread(target=self.explorer.prepare_later, daemon=True)
        self._worker.start()
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is, with the token that opens it."""
        return _address(self.port, self.token)

    def selection(self) -> pa.Table:
        """Return the nodes selected in the page, by lasso, group or search, as a table.

        One row per node, as in ``nodes.parquet``, with group names and map places. The page posts
        every selection to the server, so nothing is requested from the page here.
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
    has_token: bool = True,
    beside: Run | str | Path | None = None,
    new: str | Path | None = None,
) -> None:
    """Serve a run until Ctrl-C.

    Args:
        run: The run, or its folder.
        port: Port on 127.0.0.1; 0 takes a free one.
        graph: The graph, for runs that do not keep it.
        open_browser: Open the page in the user's browser.
        announce: Called with the address.
        has_token: Let only those in who have the whole address, with its token.
        beside: Another run, to show beside this one.
        new: A table of nodes embedded after the fit, to show on the map.
    """
    listening = _listen(port)
    with listening:
        number = int(listening.getsockname()[1])
        app: Future[App] = Future()
        token = _new_token(has_token)
        server = _make_server(number, app, token)
        # The page's files must not wait for the imports of the thread that reads the run.
        sys.setswitchinterval(0.0005)
        reader = _Reader(_Asked(run, graph, beside, new), app, server)
        reader.start()
        address = _address(number, token)
        announce(address)
        if open_browser:
            # The browser starts while the run is still being read.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            server.run(sockets=[listening])
        finally:
            reader.stop()
        if reader.error is not None:
            raise reader.error


class _Reader(threading.Thread):
    """Reads the run beside a server that already serves the page, then prepares the rest."""

    def __init__(self, asked: _Asked, app: Future[App], server: Any) -> None:
        super().__init__(daemon=True)
        self._asked, self._app, self._server = asked, app, server
        self._explorer: Explorer | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Read; a run that cannot be read ends the server."""
        try:
            block_pandas()
            self._explorer = _read(self._asked, self._app)
        except Exception as error:
            self.error = error
            self._app.set_exception(error)
            self._server.should_exit = True
        else:
            self._explorer.prepare_later()

    def stop(self) -> None:
        """Start no further work, and end the process if some cannot be waited for."""
        explorer = self._explorer
        if explorer is not None:
            explorer.stop()
        self.join(timeout=1)
        if self.is_alive() or (explorer is not None and not explorer.attention.join(timeout=0)):
            # Numerical code in a thread cannot be stopped and would be aborted with a message that
            # frightens people. Files are replaced whole, so nothing is cut short.
            os._exit(0)


def block_pandas() -> None:
    """Keep pyarrow from loading pandas, a quarter of a second of which the explorer uses nothing.

    On its first conversion pyarrow looks for pandas, and remembers if there was none. Only for a
    process of our own: whoever works in a notebook may want frames from pyarrow.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blocker)


class _PandasBlocker:
    """Makes the import of pandas fail."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas to the import system, and leave other names to others."""
        if name == "pandas":
            raise ImportError("not needed here", name=name)


def _new_token(has_token: bool) -> str | None:
    return secrets.token_urlsafe(24) if has_token else None


def _address(port: int, token: str | None) -> str:
    return f"http://{HOST}:{port}/" + ("" if token is None else f"?token={token}")


def _make_server(port: int, app: Future[App], token: str | None) -> Any:
    import uvicorn

    from graphham.explore.guard import Guard
    from graphham.explore.patience import ImpatientProtocol

    config = uvicorn.Config(
        Guard(port, app, token),
        http=ImpatientProtocol,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
    )
    return uvicorn.Server(config)


def _read(asked: _Asked, app: Future[App]) -> Explorer:
    from graphham.explore.queries import Explorer
    from graphham.explore.server import make_app

    explorer = Explorer(asked.run, asked.graph, beside=asked.beside, new=asked.new)
    app.set_result(make_app(explorer))
    return explorer


def _listen(port: int) -> socket.socket:
    """Take the port; a request that comes before the server is there waits for it."""
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
