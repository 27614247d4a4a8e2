"""Read the stored cells of the presets for the tables of the documentation."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
Metrics = dict[str, Any]

# The experiments are a package beside the source, not an installed one.
sys.path.insert(0, str(ROOT))


def read_metrics(
    study: str, graph: str, protocol: str, method: str = "graphham"
) -> list[Metrics] | None:
    """Return the numbers of a study's cells, in its order; ``None`` unless all are finished.

    A mean over some of the seeds is a different number from the one that was promised, so an
    unfinished family is left out of every table.
    """
    from experiments.studies import load_study

    records = _stored(study, RESULTS)
    wanted = (graph, protocol, method)
    keys = [c.key for c in load_study(study).cells if (c.graph, c.protocol, c.method) == wanted]
    if not keys or not all(key in records for key in keys):
        return None
    return [records[key]["metrics"] for key in keys]


def earlier_lines(study: str) -> list[str]:
    """Return the remark on a study that an earlier version measured; nothing on one of today."""
    from experiments.stored import earlier_note

    note = earlier_note(_stored(study, RESULTS).values())
    return [f"**{note}**", ""] if note else []


@functools.cache
def _stored(study: str, folder: Path) -> dict[str, Any]:
    from experiments.stored import read_stored

    return read_stored(folder, [study])


def values(cells: Sequence[Metrics], name: str) -> npt.NDArray[np.float64]:
    """Return one number of every cell."""
    return np.array([cell[name] for cell in cells], dtype=np.float64)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
