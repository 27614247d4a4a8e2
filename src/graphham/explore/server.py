"""The explorer's queries as HTTP routes over one run; the guard stands in front of them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.explore.queries import Explorer
from graphham.report.safe_text import need

need("fastapi", "the explorer")

import numpy as np  # noqa: E402
from fastapi import FastAPI, Request, Response  # noqa: E402
from fastapi.responses import JSONResponse, StreamingResponse  # noqa: E402

if TYPE_CHECKING:
    import pyarrow as pa

_BINARY = "application/octet-stream"
_MAX_BYTES = 64 << 20
_PIECE_ROWS = 20_000
# A body that does not arrive in this time is given up.
_BODY_SECONDS = 60.0


def make_app(explorer: Explorer) -> FastAPI:
    """Return the web application of one run, to stand behind a guard.

    Args:
        explorer: The run.
    """
    app = FastAPI(title="graphham", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(InputError)
    async def refuse(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(OSError)
    async def fail(_: Request, error: OSError) -> JSONResponse:
        reason = error.strerror or type(error).__name__
        return JSONResponse({"error": f"the run cannot be written to: {reason}"}, 409)

    _add_routes(app, explorer)
    return app


def _add_routes(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/overview")
    def overview() -> JSONResponse:
        return JSONResponse(explorer.overview())

    @app.get("/api/points")
    def points() -> Response:
        return Response(explorer.points(), media_type=_BINARY)

    @app.get("/api/beside")
    def beside() -> Response:
        return Response(explorer.beside_points(), media_type=_BINARY)

    @app.get("/api/map")
    def map_state() -> dict[str, Any]:
        return {"isFinal": explorer.map_is_final, "note": explorer.layout.note}

    @app.get("/api/density")
    def density() -> Response:
        return Response(explorer.density(), media_type=_BINARY)

    @app.get("/api/window")
    def window(x0: float, x1: float, y0: float, y1: float) -> Response:
        return Response(explorer.window(x0, x1, y0, y1), media_type=_BINARY)

    @app.get("/api/node/{row}")
    def node(row: int) -> JSONResponse:
        return JSONResponse(explorer.node(row, wait=False))

    @app.get("/api/find")
    def find(id: str) -> dict[str, int]:
        return {"row": int(explorer.view.result.ids.find([id])[0])}

    @app.get("/api/search")
    def search(q: str = "") -> JSONResponse:
        return JSONResponse(explorer.search(q))

    @app.get("/api/attribute")
    def attribute(kind: str, code: int) -> Response:
        rows = explorer.attribute_rows(kind, code)
        return Response(rows.astype("<u4").tobytes(), media_type=_BINARY)

    @app.post("/api/rename")
    async def rename(request: Request) -> JSONResponse:
        body = await _read_json(request)
        level, group, name = body.get("level"), body.get("group"), body.get("name")
        if not (isinstance(level, int) and isinstance(group, int) and isinstance(name, str)):
            raise InputError("a new name needs level, group and name")
        return JSONResponse(explorer.rename(level, group, name))

    @app.post("/api/selection")
    async def selection(request: Request) -> JSONResponse:
        return JSONResponse({"count": explorer.select(await _read_json(request))})

    @app.post("/api/export")
    async def export(request: Request) -> Response:
        body = await _read_json(request)
        rows, form = explorer.selected_rows(body), body.get("format")
        if rows is None:
            listed = body.get("rows")
            most = explorer.view.num_nodes
            if not isinstance(listed, list) or not all(
                type(r) is int and 0 <= r < most for r in listed
            ):
                raise InputError(f"a selection is a list of rows, each in 0..{most - 1}")
            rows = np.asarray(listed, dtype=np.int64)
        if form not in ("csv", "parquet"):
            raise InputError(f"a selection is exported as csv or parquet, not {form!r}")
        starts = range(0, max(1, len(rows)), _PIECE_ROWS)
        first = explorer.table(rows[:_PIECE_ROWS])  # refuses wrong rows before anything is sent
        pieces = (explorer.table(rows[at : at + _PIECE_ROWS]) if at else first for at in starts)
        name = f'attachment; filename="selection.{form}"'
        return StreamingResponse(
            table_stream(pieces, form), media_type=_BINARY, headers={"Content-Disposition": name}
        )


def table_stream(pieces: Iterator[pa.Table], form: str) -> Iterator[bytes]:
    """Yield a node table as CSV (lists joined by spaces) or Parquet, holding one piece at a time.

    Args:
        pieces: Some rows each; there is at least one piece.
        form: ``csv`` or ``parquet``.
    """
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    drain, writer = _Drain(), None
    for piece in pieces:
        table = piece if form == "parquet" else _flat(piece)
        if writer is None and form == "parquet":
            writer = pq.ParquetWriter(drain, table.schema, compression="zstd")
        elif writer is None:
            writer = csv.CSVWriter(drain, table.schema)
        writer.write_table(table)
        yield drain.take()
    if writer is not None:
        writer.close()
    yield drain.take()


class _Drain(io.RawIOBase):
    """A file that keeps what is written to it only until it is taken away."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Say that this file can be written to, as Arrow asks."""
        return True

    def write(self, data: Any) -> int:
        """Keep some bytes."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return what was written since the last time."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def _flat(table: pa.Table) -> pa.Table:
    """Return a table whose lists are texts, joined by spaces."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
            rows = table.column(place).to_pylist()
            texts = [None if r is None else " ".join(_cell_text(v) for v in r) for r in rows]
            table = table.set_column(place, field.name, pa.array(texts, type=pa.string()))
    return table


def _cell_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


async def _read_json(request: Request) -> dict[str, Any]:
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > _MAX_BYTES:
        raise InputError("the request is too large")
    try:
        value = json.loads(await asyncio.wait_for(request.body(), _BODY_SECONDS))
    except TimeoutError:
        raise InputError("the request did not arrive in time") from None
    except (ValueError, RecursionError):
        raise InputError("the request is not JSON, or nested too deeply") from None
    if not isinstance(value, dict):
        raise InputError("the request is not a JSON object")
    return value
