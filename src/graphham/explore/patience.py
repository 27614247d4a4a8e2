"""Close connections on which nobody finishes a request."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

# How long a request may take to arrive, from the first moment of waiting to its last header.
REQUEST_SECONDS = 10.0

_Base: Any = AutoHTTPProtocol


class ImpatientProtocol(_Base):  # type: ignore[misc]
    """HTTP as the server speaks it, but a client that stays silent half-way is let go of.

    The server itself only limits the time between two requests; connections on which no request, or
    half of one, arrives would stay for ever.
    """

    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in what arrived, and wait on if it is no whole request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._cancel()
        super().connection_lost(exc)

    def _is_waiting(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _watch(self) -> None:
        if not self._is_waiting():
            self._cancel()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_waiting() and not self.transport.is_closing():
            self.transport.abort()
