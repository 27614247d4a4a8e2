"""Show people's own text safely: one line, no control signs, never taken for markup."""

from __future__ import annotations

import html
import re
from typing import Any

from graphham.errors import InputError

# Signs of a name that a legend or a band shows; the pointer shows all of it.
SHORT = 34
_NUMBER = re.compile(r" \(\d+\)$")


def one_line(value: Any, width: int = 80) -> str:
    """Return text on one line, with invisible signs spelled out and long text cut.

    Direction marks are invisible signs too: left alone, they would turn the text around them.
    """
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = text[: 4 * width]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    line = line or "''"
    if len(line) <= width:
        return line
    # "Theory (2)" and "Theory (3)" differ in their last signs: those stay.
    number = _NUMBER.search(line)
    tail = number[0] if number and len(number[0]) < width // 2 else ""
    return line[: width - 1 - len(tail)].rstrip() + "…" + tail


def plot_text(value: Any, width: int = 80) -> str:
    """Return text for plotly, which reads ``<b>`` and ``<a href>`` in every label."""
    return html.escape(one_line(value, width), quote=False)


def need(package: str, what: str) -> None:
    """Refuse in one sentence when a package of the ``view`` extra is missing."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise InputError(
            f"{what} needs the package {package}, which is not installed; "
            f"pip install 'graphham[view]'"
        )
