"""The counter-based draws of the compiled loops, in Python's whole numbers."""

from __future__ import annotations


def mix(key: int, part: int) -> int:
    """Return the next key: what the compiled loops derive from a key and a number."""
    full = (1 << 64) - 1
    bits = (key + (part + 1) * 0x9E3779B97F4A7C15) & full
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & full
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & full
    return bits ^ (bits >> 31)


def unit(bits: int) -> float:
    """Return a number in [0, 1) from 64 random bits."""
    return (bits >> 11) / 2**53
