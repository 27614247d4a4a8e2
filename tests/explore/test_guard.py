"""The guard lets the page itself in and nobody else."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from graphham.errors import InputError
from graphham.explore.guard import Guard
from graphham.explore.launch import RunningExplorer
from graphham.results.run_folder import Run
from tests.explore.client import Client, run_in_thread


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


def test_every_response_carries_the_policy(client: Client) -> None:
    for path in ("/", "/api/overview", "/static/nothing.js", "/api/node/99999"):
        headers = client.get(path).headers
        rules = dict(r.strip().split(" ", 1) for r in headers["content-security-policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert "'unsafe-inline'" not in rules["script-src"]
        assert rules["connect-src"] == "'self'"
        assert rules["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_the_page_is_served_before_the_run_is_read() -> None:
    app: Future[Any] = Future()
    guard = Guard(1, app)

    async def request(path: str) -> dict[str, Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        headers = [(b"host", b"127.0.0.1:1")]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
        await guard(scope, receive, send)
        assert b"content-security-policy" in dict(sent[0]["headers"])
        return {"status": sent[0]["status"], "body": sent[1]["body"]}

    async def visit() -> None:
        waiting = asyncio.create_task(request("/api/overview"))
        gone = asyncio.create_task(request("/api/points"))
        page = await request("/")
        assert page["status"] == 200
        assert b"main.js" in page["body"]
        gone.cancel()  # a visitor who leaves must not take the application along
        await asyncio.sleep(0.01)
        assert not waiting.done()
        app.set_exception(InputError("broken"))
        assert (await waiting)["status"] == 503

    run_in_thread(lambda: asyncio.run(visit()))


def test_only_who_knows_the_token_gets_in(own_run: Path) -> None:
    with RunningExplorer(own_run) as running:
        assert running.token is not None
        assert running.address.endswith(f"/?token={running.token}")
        stranger, wrong = Client(running.port), Client(running.port, "x" * 32)
        body = {"level": 1, "group": 0, "name": "stolen"}
        for client in (stranger, wrong):
            for path in ("/", "/api/overview", "/static/main.js", "/?token=", "/?token=wrong"):
                seen = client.get(path)
                assert seen.status_code == 403, path
                assert running.token not in seen.text + str(seen.headers)
            # An origin is easily forged by a program; the token is not.
            assert client.post("/api/rename", body, headers=client.home).status_code == 403
        assert not (own_run / "names.json").exists()
        seen = stranger.get(f"/?token={running.token}")
        assert seen.status_code == 303
        assert seen.headers["location"] == "/"
        cookie = seen.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        kept = {"Cookie": cookie.split(";")[0]}
        assert stranger.get("/", headers=dict(kept)).status_code == 200
        assert stranger.get("/api/overview", headers=dict(kept)).status_code == 200
        told = {"Authorization": f"token {running.token}"}
        assert stranger.get("/api/overview", headers=told).status_code == 200


def test_without_a_token_all_are_let_in(own_run: Path) -> None:
    with RunningExplorer(own_run, has_token=False) as running:
        assert "token" not in running.address
        assert Client(running.port).get("/api/overview").status_code == 200
