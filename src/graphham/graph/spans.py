"""Ranges of rows: how nodes are handed out, whoever works on them."""

from __future__ import annotations

# Nodes are handed out in whole spans of at most this many rows, so that every span is computed by
# the same calls on the same rows, whoever computes it, and gives the same bits.
SPAN = 8192


def span_of(num_nodes: int) -> int:
    """Return the rows of one span; it depends on the graph alone, never on who reads it."""
    return min(SPAN, max(16, -(-num_nodes // 64)))


def span_bounds(total: int, parts: int, span: int = SPAN) -> list[int]:
    """Return ``parts + 1`` bounds that cut ``total`` rows into ranges of whole spans."""
    spans = -(-total // span)
    return [min(total, span * (spans * part // parts)) for part in range(parts + 1)]
