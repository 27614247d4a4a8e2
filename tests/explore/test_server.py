"""The server must answer its own page and nobody else."""

import asyncio
import http.client
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.explore.guard import Door
from graphham.explore.launch import RunningExplorer, serve
from graphham.results.run_folder import Run


@dataclass
class Answer:
    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", errors="replace")

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Client:
    """Sends requests as they are: no library mends a path or a header on the way."""

    port: int

    @property
    def home(self) -> dict[str, str]:
        return {"Origin": f"http://127.0.0.1:{self.port}"}

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.send("GET", path, headers or {}, None)

    def post(self, path: str, body: object, headers: dict[str, str]) -> Answer:
        kind = {"Content-Type": "application/json"}
        return self.send("POST", path, {**kind, **headers}, json.dumps(body))

    def send(self, method: str, path: str, headers: dict[str, str], body: str | None) -> Answer:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        host = headers.pop("Host", f"127.0.0.1:{self.port}")
        link.putrequest(method, path, skip_host=True)
        data = b"" if body is None else body.encode()
        sent = {"Host": host, **headers, "Content-Length": str(len(data))}
        for name, value in sent.items():
            link.putheader(name, value)
        link.endheaders(data)
        seen = link.getresponse()
        found = {k.lower(): v for k, v in seen.getheaders()}
        answer = Answer(seen.status, found, seen.read())
        link.close()
        return answer


@pytest.fixture
def client(own_run: Path) -> Iterator[Client]:
    (own_run.parent / "secret.txt").write_text("secret")
    with RunningExplorer(own_run) as running:
        yield Client(running.port)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT", ""]
)
def test_a_foreign_host_name_is_refused(client: Client, host: str) -> None:
    assert client.get("/api/overview").status_code == 200
    own = {"Host": f"localhost:{client.port}"}
    assert client.get("/api/overview", headers=own).status_code == 200
    for path in ("/", "/api/overview", "/static/main.js"):
        named = {"Host": host.replace("PORT", str(client.port))}
        assert client.get(path, headers=named).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", None])
def test_only_the_page_itself_may_change_the_run(
    client: Client, own_run: Path, origin: str | None
) -> None:
    body = {"level": 1, "group": 0, "name": "stolen"}
    headers = {} if origin is None else {"Origin": origin}
    assert client.post("/api/rename", body, headers=headers).status_code == 403
    if origin is not None:
        assert client.get("/api/overview", headers=headers).status_code == 403
    # A form of another page can send plain text without being asked first.
    sent = client.post("/api/rename", body, headers={**client.home, "Content-Type": "text/plain"})
    assert sent.status_code == 403
    assert not (own_run / "names.json").exists()
    assert client.post("/api/rename", body, headers=client.home).status_code == 200
    assert Run.open(own_run).hierarchy.names[0][0] == "stolen"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/%2e%2e/secret.txt",
        "/static/....//secret.txt",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\secret.txt",
        "/static/main.js%00.html",
        "/static/..%5c..%5csecret.txt",
        "/../../../etc/passwd",
        "/nodes.parquet",
        "/api/../config.toml",
        "/static/__init__.py",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_path_leads_out(client: Client, path: str) -> None:
    seen = client.get(path)
    assert seen.status_code in (403, 404)
    assert "secret" not in seen.text
    assert "root:" not in seen.text


def test_every_answer_carries_the_policy(client: Client) -> None:
    for path in ("/", "/api/overview", "/static/nothing.js", "/api/node/99999"):
        headers = client.get(path).headers
        rules = dict(r.strip().split(" ", 1) for r in headers["content-security-policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert "'unsafe-inline'" not in rules["script-src"]
        assert rules["connect-src"] == "'self'"
        assert rules["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/rename", {"level": 9, "group": 0, "name": "x"}),
        ("/api/rename", {"level": "1", "group": 0, "name": "x"}),
        ("/api/rename", {"level": 1, "group": 0, "name": "x" * 10_000}),
        ("/api/rename", []),
        ("/api/export", {"rows": [1, 2, 99_999], "format": "csv"}),
        ("/api/export", {"rows": [-1], "format": "csv"}),
        ("/api/export", {"rows": ["../x"], "format": "csv"}),
        ("/api/export", {"rows": [1], "format": "../../x"}),
        ("/api/export", {"group": "2-99", "format": "csv"}),
        ("/api/export", {"group": "../x", "format": "csv"}),
        ("/api/export", {"lasso": "1,2;nan,3;4,5", "format": "csv"}),
        ("/api/selection", {"lasso": "1,2;3"}),
        ("/api/selection", {"lasso": 5}),
        ("/api/selection", {"attribute": "feature:-1"}),
        ("/api/selection", {"attribute": "label:" + "9" * 30_000}),
    ],
)
def test_a_wrong_question_gets_one_sentence(
    client: Client, own_run: Path, path: str, body: object
) -> None:
    seen = client.post(path, body, headers=client.home)
    assert seen.status_code == 400
    assert "\n" not in seen.json()["error"]
    assert not (own_run / "names.json").exists()


def test_an_export_is_the_runs_own_table(client: Client, own_run: Path) -> None:
    rows = [5, 3, 200]
    sent = {"rows": rows, "format": "parquet"}
    seen = client.post("/api/export", sent, headers=client.home)
    table = pq.read_table(io.BytesIO(seen.content))
    whole = Run.open(own_run).nodes
    assert table.select(whole.column_names).to_pylist() == whole.take(rows).to_pylist()


def test_it_listens_on_this_machine_only(small_run: Path) -> None:
    with RunningExplorer(small_run) as running:
        assert running._socket.getsockname()[0] == "127.0.0.1"
        assert running.address.startswith("http://127.0.0.1:")


def beside(work: Callable[[], None]) -> None:
    """Run in a thread: while a browser is open, the main thread has an event loop already."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_the_page_is_handed_out_before_the_run_is_read() -> None:
    answers: Future[Any] = Future()
    door = Door(1, answers)

    async def ask(path: str) -> dict[str, Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        headers = [(b"host", b"127.0.0.1:1")]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
        await door(scope, receive, send)
        assert b"content-security-policy" in dict(sent[0]["headers"])
        return {"status": sent[0]["status"], "body": sent[1]["body"]}

    async def visit() -> None:
        waiting = asyncio.create_task(ask("/api/overview"))
        gone = asyncio.create_task(ask("/api/points"))
        page = await ask("/")
        assert page["status"] == 200
        assert b"main.js" in page["body"]
        gone.cancel()  # a visitor who leaves must not take the answers along
        await asyncio.sleep(0.01)
        assert not waiting.done()
        answers.set_exception(InputError("broken"))
        assert (await waiting)["status"] == 503

    beside(lambda: asyncio.run(visit()))


def test_a_run_that_cannot_be_read_ends_the_server(own_run: Path) -> None:
    (own_run / "nodes.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"nodes\.parquet"):
        beside(lambda: serve(own_run, open_browser=False, announce=lambda _: None))


@pytest.mark.parametrize(
    ("modules", "spared"),
    [
        ("launch, door", "numpy scipy pyarrow fastapi torch numba"),
        ("answers", "torch numba sklearn plotly openTSNE"),
    ],
)
def test_the_first_answers_wait_for_no_library_they_do_not_need(modules: str, spared: str) -> None:
    code = f"import sys; from graphham.explore import {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(spared.split()) & set(done.stdout.split())


def test_a_run_is_read_without_pandas_which_stays_to_be_had(small_run: Path) -> None:
    code = f"""
import sys
from graphham.explore.launch import spare_pandas
spare_pandas()
from graphham.explore.queries import Explorer
explorer = Explorer({str(small_run)!r})
explorer.overview(), explorer.points(), explorer.node(0, waits=False)
print("pandas" in sys.modules)
import pandas
print(len(pandas.Series([1, 2])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "2"]
