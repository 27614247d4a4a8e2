"""The guard in front of the explorer: it checks every request and serves the page's own files.

It serves before the run is read and before FastAPI is loaded: the browser starts its scripts
meanwhile, and its requests wait until the application behind the guard is there.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from graphham.explore.modules import PLOTLY, read_modules, served_page, static_folder
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
_JAVASCRIPT = "text/javascript; charset=utf-8"


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the page's own files by name, with their types: all that is ever served as files."""
    modules = read_modules()
    return {
        "index.html": (served_page(modules).encode(), "text/html; charset=utf-8"),
        "app.css": ((static_folder() / "app.css").read_bytes(), "text/css; charset=utf-8"),
        **{name: (text.encode(), _JAVASCRIPT) for name, text in modules.items()},
    }


class Guard:
    """An ASGI application in front of the one that knows the run.

    Args:
        port: The port it is reached at; requests that name another host are refused.
        app: The application behind the guard, once it is there.
        token: What a visitor has to know, so that other users and programs of this machine stay
            out; it comes with the address and is a cookie from then on. ``None`` lets all in.
    """

    def __init__(self, port: int, app: Future[App], token: str | None = None) -> None:
        self._token = token
        # Cookies are shared between the ports of a machine.
        self._cookie = f"graphham-{port}"
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}
        self._origins = {b"http://" + host for host in self._hosts}
        self._app = app
        self._files = static_files()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Respond to one request, or forward it."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _send_error(send_guarded, *refusal)
        elif scope["path"] == "/" and self._knows_token(_asked_token(scope)):
            await self._hand_out_cookie(send_guarded)
        elif scope["path"] == "/" or scope["path"].startswith("/static/"):
            await self._serve_file(scope, send_guarded)
        else:
            await self._forward(scope, receive, send_guarded)

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
        if not self._is_known(scope, headers):
            return 403, "open the whole address that graphham explore printed, with its token"
        return None if method in ("GET", "HEAD", "POST") else (405, "unknown method")

    def _is_known(self, scope: Message, headers: dict[bytes, bytes]) -> bool:
        if self._token is None:
            return True
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            cookies = SimpleCookie()
        kept = cookies.get(self._cookie)
        said = headers.get(b"authorization", b"").decode("latin-1").removeprefix("token ")
        tokens = [_asked_token(scope), said, "" if kept is None else kept.value]
        return any(self._knows_token(token) for token in tokens)

    def _knows_token(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(
            token.encode("utf-8", "replace"), self._token.encode()
        )

    async def _hand_out_cookie(self, send: Send) -> None:
        """Keep the token as a cookie and lead to the address without it."""
        # Lax and not strict: a link in a notebook of another address must work.
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"
        headers = [
            (b"location", b"/"),
            (b"set-cookie", cookie.encode()),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _forward(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            # Shielded: one visitor who goes away must not cancel what all the others wait for.
            app = await asyncio.shield(asyncio.wrap_future(self._app))
        except Exception:
            await _send_error(send, 503, "the run cannot be read; see the terminal")
        else:
            await app(scope, receive, send)

    async def _serve_file(self, scope: Message, send: Send) -> None:
        # A look-up in a fixed table: there is no path to walk out of.
        name = scope["path"].removeprefix("/static/") if scope["path"] != "/" else "index.html"
        if scope["method"] == "POST":
            await _send_error(send, 405, "unknown method")
        elif name == PLOTLY:
            await _send_response(send, 200, plotly_script(), _JAVASCRIPT, scope["method"])
        elif name in self._files:
            await _send_response(send, 200, *self._files[name], scope["method"])
        else:
            await _send_error(send, 404, "no such file")


def _asked_token(scope: Message) -> str:
    """Return the token in the address of a request, or nothing."""
    query = bytes(scope.get("query_string", b"")).decode("latin-1")
    if "token=" not in query:
        return ""
    try:
        return parse_qs(query, max_num_fields=50).get("token", [""])[0]
    except ValueError:
        return ""


async def _send_error(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    await _send_response(send, status, body, "application/json", "GET")


async def _send_response(send: Send, status: int, body: bytes, kind: str, method: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
