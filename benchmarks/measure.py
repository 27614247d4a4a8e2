"""Time several sides in turn, and compare them round by round.

A shared machine speeds up and slows down within seconds. So every round runs every side once, the
order is reversed every other round, and ratios are taken within a round before they are averaged.
"""

from __future__ import annotations

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True)
class Sample:
    """What one run of one side took.

    Args:
        cpu: CPU-seconds of the whole process, all threads.
        wall: Seconds on the clock.
    """

    cpu: float
    wall: float


Side = Callable[[], Sample]


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest of several numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise at least one number."""
        return cls(min(values), statistics.median(values), max(values))


def once(work: Work) -> Sample:
    """Run something and say what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall)


def timed(work: Work, at_least: float = 0.2) -> Side:
    """Return a side that repeats short work until the clock can resolve it.

    The first call decides the number of repeats and keeps it, so that every round does the same
    work; samples are per repeat. :func:`interleave` makes that call in its untimed warm-up.

    Args:
        work: What to time.
        at_least: Seconds of CPU one sample should last.
    """
    repeats = 0

    def side() -> Sample:
        nonlocal repeats
        if not repeats:
            work()  # compiles, fills caches
            first = once(work)
            repeats = max(1, math.ceil(at_least / max(first.cpu, 1e-6)))
            return first
        whole = once(lambda: [work() for _ in range(repeats)])
        return Sample(whole.cpu / repeats, whole.wall / repeats)

    return side


def interleave(
    sides: Mapping[str, Side], rounds: int, warm: bool = True
) -> dict[str, list[Sample]]:
    """Run all sides in turn; the order is reversed every other round.

    Args:
        sides: What to run, by name.
        rounds: Number of rounds that count.
        warm: Whether an extra round that does not count comes first.

    Returns:
        Per side one sample per round, in round order.
    """
    if warm:
        for side in sides.values():
            side()
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for number in range(rounds):
        names = list(sides)
        for name in names if number % 2 == 0 else reversed(names):
            samples[name].append(sides[name]())
    return samples


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return how many times longer they take than we do, round by round."""
    return Spread.of([b / a for a, b in zip(ours, theirs, strict=True)])


def fitted_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of a straight line through log y against log x, by least squares."""
    if len(x) < 2:
        raise ValueError(f"an exponent needs at least two points, got {len(x)}")
    slope, _ = statistics.linear_regression([math.log(v) for v in x], [math.log(v) for v in y])
    return slope


def peak_bytes() -> int:
    """Return the largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
