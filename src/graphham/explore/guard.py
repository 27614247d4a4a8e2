"""The explorer's front door: it guards every request and hands out the page's own files.

The door opens before the run is read and before FastAPI is loaded: the browser starts its scripts
meanwhile, and its questions wait until somebody can answer them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from importlib.resources import files
from typing import Any, TypeAlias

from graphham.report.plotlyjs import plotly_script

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

# 'unsafe-eval' is for plotly's WebGL points, whose library compiles its own draw calls; no inline
# script runs and nothing is loaded from or sent to any other place.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
PLOTLY = "plotly.min.js"


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the page's own files by name, with their types: all that is ever served as files."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in (files("graphham.explore") / "static").iterdir():
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            found[file.name] = (file.read_bytes(), f"{kind}; charset=utf-8")
    return found


class Door:
    """An ASGI application in front of the one that answers questions about the run.

    Args:
        port: The port it is reached at; requests that name another host are refused.
        answers: The application behind the door, once it is there.
    """

    def __init__(self, port: int, answers: Future[App]) -> None:
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}
        self._origins = {b"http://" + host for host in self._hosts}
        self._answers = answers
        self._pages = static_files()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _say(send_guarded, *refusal)
        elif scope["path"] == "/" or scope["path"].startswith("/static/"):
            await self._hand_out(scope, send_guarded)
        else:
            await self._pass_on(scope, receive, send_guarded)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        # A foreign page can make a browser send requests here, under a name of its own choosing.
        headers = dict(scope["headers"])
        origin, method = headers.get(b"origin"), scope["method"]
        if headers.get(b"host") not in self._hosts:
            return 403, "unknown host"
        if origin is not None and origin not in self._origins:
            return 403, "unknown origin"
        kind = headers.get(b"content-type", b"").split(b";")[0].strip()
        if method == "POST" and (origin is None or kind != b"application/json"):
            return 403, "only the page itself may do this"
        return None if method in ("GET", "HEAD", "POST") else (405, "unknown method")

    async def _pass_on(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            # Shielded: one visitor who goes away must not cancel what all the others wait for.
            behind = await asyncio.shield(asyncio.wrap_future(self._answers))
        except Exception:
            await _say(send, 503, "the run cannot be read; see the terminal")
        else:
            await behind(scope, receive, send)

    async def _hand_out(self, scope: Message, send: Send) -> None:
        # A look-up in a fixed table: there is no path to walk out of.
        name = scope["path"].removeprefix("/static/") if scope["path"] != "/" else "index.html"
        if scope["method"] == "POST":
            await _say(send, 405, "unknown method")
        elif name == PLOTLY:
            data = plotly_script()
            await _reply(send, 200, data, "text/javascript; charset=utf-8", scope["method"])
        elif name in self._pages:
            await _reply(send, 200, *self._pages[name], scope["method"])
        else:
            await _say(send, 404, "no such file")


async def _say(send: Send, status: int, error: str) -> None:
    await _reply(send, status, json.dumps({"error": error}).encode(), "application/json", "GET")


async def _reply(send: Send, status: int, data: bytes, kind: str, method: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else data})
