"""A client that sends requests as they are."""

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any


@dataclass
class Response:
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
    token: str | None = None

    @property
    def home(self) -> dict[str, str]:
        return {"Origin": f"http://127.0.0.1:{self.port}"}

    def get(self, path: str, headers: dict[str, str] | None = None) -> Response:
        return self.send("GET", path, headers or {}, None)

    def post(self, path: str, body: object, headers: dict[str, str]) -> Response:
        kind = {"Content-Type": "application/json"}
        return self.send("POST", path, {**kind, **headers}, json.dumps(body))

    def send(self, method: str, path: str, headers: dict[str, str], body: str | None) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        host = headers.pop("Host", f"127.0.0.1:{self.port}")
        connection.putrequest(method, path, skip_host=True)
        data = b"" if body is None else body.encode()
        known = {} if self.token is None else {"Cookie": f"graphham-{self.port}={self.token}"}
        sent = {"Host": host, **known, **headers, "Content-Length": str(len(data))}
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        received = connection.getresponse()
        lowered = {k.lower(): v for k, v in received.getheaders()}
        response = Response(received.status, lowered, received.read())
        connection.close()
        return response


def run_in_thread(work: Callable[[], None]) -> None:
    """Run in a thread: while a browser is open, the main thread has an event loop already."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
