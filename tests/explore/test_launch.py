"""The explorer starts on this machine only, and loads no more than it needs."""

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from graphham.errors import InputError
from graphham.explore.launch import RunningExplorer, serve
from tests.explore.client import run_in_thread


def test_it_listens_on_this_machine_only(small_run: Path) -> None:
    with RunningExplorer(small_run) as running:
        assert running._socket.getsockname()[0] == "127.0.0.1"
        assert running.address.startswith("http://127.0.0.1:")


def test_a_run_that_cannot_be_read_ends_the_server(own_run: Path) -> None:
    (own_run / "nodes.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"nodes\.parquet"):
        run_in_thread(lambda: serve(own_run, open_browser=False, announce=lambda _: None))


@pytest.mark.parametrize(
    ("modules", "spared"),
    [
        ("launch, guard", "numpy scipy pyarrow fastapi torch numba"),
        ("queries", "torch numba sklearn plotly openTSNE"),
    ],
)
def test_the_first_response_waits_for_no_library_without_need(modules: str, spared: str) -> None:
    code = f"import sys; from graphham.explore import {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(spared.split()) & set(done.stdout.split())


def test_a_run_is_read_without_pandas_which_stays_to_be_had(small_run: Path) -> None:
    code = f"""
import sys
from graphham.explore.launch import block_pandas
block_pandas()
from graphham.explore.queries import Explorer
explorer = Explorer({str(small_run)!r})
explorer.overview(), explorer.points(), explorer.node(0, wait=False)
print("pandas" in sys.modules)
import pandas
print(len(pandas.Series([1, 2])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "2"]


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET /static/nothing HTTP/1.1\r\nHost: x\r\n\r\nGET"],
)
def test_half_open_connections_are_closed(
    small_run: Path, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.explore.patience.REQUEST_SECONDS", 0.5)
    with RunningExplorer(small_run) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
            connection.sendall(begun)
            begin = time.monotonic()
            try:
                while connection.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            assert time.monotonic() - begin < 10
        monkeypatch.undo()
        page = running.address.replace("?", "static/main.js?")
        with urllib.request.urlopen(page) as response:  # others are served as before
            assert response.status == 200
