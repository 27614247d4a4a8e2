"""Columns on their way to the browser: a JSON header, then plain little-endian arrays.

Layout: the header's length as a 32-bit number, the header as UTF-8 padded with spaces, then each
column at an offset divisible by eight, so that the browser reads it without copying. Text is a
column of bytes and one of bounds.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = {"f4": "<f4", "i4": "<i4", "u4": "<u4", "u2": "<u2", "u1": "u1"}


def pack(columns: Mapping[str, Any], meta: Mapping[str, Any]) -> bytes:
    """Put columns into one piece of bytes.

    Args:
        columns: Arrays (float32, int32, uint32, uint16, uint8 or booleans) or lists of text.
        meta: What else the header says.
    """
    parts: list[tuple[str, str, npt.NDArray[Any]]] = []
    for name, values in columns.items():
        if isinstance(values, list):
            pieces = [str(v).encode("utf-8", errors="replace") for v in values]
            bounds = np.cumsum([0, *map(len, pieces)], dtype=np.uint32)
            parts.append((name, "utf8", np.frombuffer(b"".join(pieces), dtype=np.uint8)))
            parts.append((f"{name}:bounds", "u4", bounds))
        else:
            parts.append((name, *_numbers(np.asarray(values))))
    layout, offset = [], 0
    for name, kind, array in parts:
        layout.append({"name": name, "type": kind, "offset": offset, "length": int(array.size)})
        offset += -(-array.nbytes // 8) * 8
    header = json.dumps({**meta, "columns": layout}, ensure_ascii=False, allow_nan=False)
    head = header.encode("utf-8", errors="replace")
    head += b" " * (-(4 + len(head)) % 8)
    pieces = [len(head).to_bytes(4, "little"), head]
    for _, _, array in parts:
        data = array.tobytes()
        pieces += [data, b"\0" * (-len(data) % 8)]
    return b"".join(pieces)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read back what :func:`pack` wrote: columns and header."""
    size = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + size])
    start, raw = 4 + size, {}
    for column in header["columns"]:
        kind = "u1" if column["type"] == "utf8" else _DTYPES[column["type"]]
        raw[column["name"]] = np.frombuffer(
            data, dtype=kind, count=column["length"], offset=start + column["offset"]
        )
    columns: dict[str, Any] = {}
    for column in header["columns"]:
        name = column["name"]
        if column["type"] == "utf8":
            whole, bounds = raw[name].tobytes(), raw[f"{name}:bounds"].tolist()
            columns[name] = [whole[a:b].decode() for a, b in itertools.pairwise(bounds)]
        elif not name.endswith(":bounds"):
            columns[name] = raw[name]
    return columns, header


def shares(values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Return numbers between 0 and 1 as 16-bit whole numbers; half the size, ample for a bar."""
    return np.asarray(np.round(np.clip(values, 0, 1) * 65535), dtype=np.uint16)


def _numbers(array: npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype == bool:
        return "u1", flat.astype(np.uint8)
    if flat.dtype.kind == "f":
        return "f4", flat.astype("<f4")
    for kind, dtype in _DTYPES.items():
        if flat.dtype == np.dtype(dtype):
            return kind, flat.astype(dtype)
    return "i4", flat.astype("<i4")
