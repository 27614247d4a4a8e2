"""Draw log-log curves as small SVG files: plain text, the same bytes on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.measure import Spread
from benchmarks.results import Curve

WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 34, 48
# Colour-blind safe; also told apart by their labels.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def log_log(curve: Curve) -> str:
    """Return the picture of a curve: spread, medians and the fitted line."""
    middles = curve.middles()
    x_low, x_high = _range(curve.x)
    y_low, y_high = _range([value for values in curve.y for value in values])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(y) - y_low) / (y_high - y_low)
        left = _LEFT + across * (WIDTH - _LEFT - _RIGHT)
        return round(left, 1), round(HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM), 1)

    parts = [_text(WIDTH / 2, 18, curve.title, "middle", 13)]
    parts += _axes(curve, (x_low, x_high), (y_low, y_high), place)
    slope = curve.exponent()
    shift = sum(
        math.log10(y) - slope * math.log10(x) for x, y in zip(curve.x, middles, strict=True)
    )
    shift /= len(middles)
    ends = [place(x, 10 ** (shift + slope * math.log10(x))) for x in (curve.x[0], curve.x[-1])]
    parts.append(
        f'<line x1="{ends[0][0]}" y1="{ends[0][1]}" x2="{ends[1][0]}" y2="{ends[1][1]}" '
        f'stroke="{_COLORS[1]}" stroke-dasharray="5 4"/>'
    )
    for x, values in zip(curve.x, curve.y, strict=True):
        spread = Spread.of(values)
        (left, low), (_, high) = place(x, spread.low), place(x, spread.high)
        middle = place(x, spread.median)[1]
        parts.append(
            f'<line x1="{left}" y1="{low}" x2="{left}" y2="{high}" stroke="{_COLORS[0]}"/>'
            f'<circle cx="{left}" cy="{middle}" r="3.5" fill="{_COLORS[0]}"/>'
        )
    parts.append(
        _text(WIDTH - _RIGHT - 6, HEIGHT - _BOTTOM - 8, f"exponent {slope:.2f}", "end", 12)
    )
    return _document(parts)


def bars(title: str, rows: Sequence[tuple[str, Spread, float | None]]) -> str:
    """Return horizontal bars of ratios on a log scale.

    Args:
        title: Heading.
        rows: Label, ratio with its spread, and the ratio asked for, if any.
    """
    tall = 40 + 26 * len(rows) + 26
    highest = max(max(spread.high, bar or 1) for _, spread, bar in rows)
    top = math.log10(max(highest * 1.2, 2))
    left = 210

    def place(value: float) -> float:
        share = math.log10(max(value, 1)) / top
        return round(left + share * (WIDTH + 140 - left - 60), 1)

    parts = [_text((WIDTH + 140) / 2, 18, title, "middle", 13)]
    for number, (label, spread, bar) in enumerate(rows):
        y = 40 + 26 * number
        parts.append(_text(left - 8, y + 12, label, "end", 11))
        parts.append(
            f'<rect x="{left}" y="{y + 2}" width="{max(0.5, place(spread.median) - left):.1f}" '
            f'height="12" fill="{_COLORS[0]}"/>'
            f'<line x1="{place(spread.low)}" y1="{y + 8}" x2="{place(spread.high)}" y2="{y + 8}" '
            f'stroke="#222"/>'
        )
        parts.append(_text(place(spread.high) + 6, y + 12, f"{spread.median:.3g}x", "start", 11))
        if bar:
            at = place(bar)
            parts.append(
                f'<line x1="{at}" y1="{y - 2}" x2="{at}" y2="{y + 18}" stroke="{_COLORS[1]}" '
                f'stroke-width="2"/>'
            )
    note = "bars: median ratio per CPU-second, black: spread over rounds, orange: asked for"
    parts.append(_text(8, tall - 8, note, "start", 10))
    return _document(parts, WIDTH + 140, tall)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten to show, with a little room."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.08, 0.06 * (high - low))
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Return powers of ten, and twos and fives where there are few of those."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    plain = [10.0**power for power in powers if low <= power <= high]
    if len(plain) >= 3:
        return plain
    finer = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    return [value for value in finer if low <= math.log10(value) <= high]


def _axes(
    curve: Curve, xs: tuple[float, float], ys: tuple[float, float], place: object
) -> list[str]:
    assert callable(place)
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" '
        f'fill="none" stroke="#888"/>'
    ]
    for tick in _ticks(*xs):
        at = place(tick, 10 ** ys[0])[0]
        parts.append(f'<line x1="{at}" y1="{bottom}" x2="{at}" y2="{bottom + 4}" stroke="#888"/>')
        parts.append(_text(at, bottom + 17, _number(tick), "middle", 11))
    for tick in _ticks(*ys):
        at = place(10 ** xs[0], tick)[1]
        parts.append(f'<line x1="{_LEFT - 4}" y1="{at}" x2="{_LEFT}" y2="{at}" stroke="#888"/>')
        parts.append(_text(_LEFT - 7, at + 4, _number(tick), "end", 11))
    parts.append(_text((_LEFT + right) / 2, HEIGHT - 10, curve.x_label, "middle", 12))
    middle = (_TOP + bottom) / 2
    label = escape(curve.y_label)
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" font-size="12" '
        f'transform="rotate(-90 14 {middle})">{label}</text>'
    )
    return parts


def _number(value: float) -> str:
    if 0.01 <= value < 10_000:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = round(value / 10.0**power)
    return f"1e{power}" if factor == 1 else f"{factor}e{power}"


def _text(x: float, y: float, text: str, anchor: str, size: int) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
    )


def _document(parts: Sequence[str], width: int = WIDTH, height: int = HEIGHT) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" fill="#222">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )
