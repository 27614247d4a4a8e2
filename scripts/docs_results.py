"""Read the stored measurements of experiments/core.py for the tables of the documentation."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results" / "core"
Cell = dict[str, Any]


def experiments_core() -> Any:
    """Return the module experiments/core.py, which is not part of the package."""
    spec = importlib.util.spec_from_file_location("core", ROOT / "experiments" / "core.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_cells(family: str, names: Sequence[str]) -> list[Cell] | None:
    """Return the cells of a family in the order of their names; ``None`` unless all are there.

    A mean over some of the seeds is a different number from the one that was promised, so an
    unfinished family is left out of every table.
    """
    paths = [RESULTS / f"{family}.{name}.json" for name in names]
    if not all(path.is_file() for path in paths):
        return None
    return [json.loads(path.read_text("utf-8")) for path in paths]


def values(cells: Sequence[Cell], name: str) -> npt.NDArray[np.float64]:
    """Return one number of every cell."""
    return np.array([cell[name] for cell in cells], dtype=np.float64)


def mean_sd(cells: Sequence[Cell], name: str, digits: int = 3) -> str:
    """Return mean and standard deviation over the cells (divided by n - 1)."""
    held = values(cells, name)
    return f"{held.mean():.{digits}f} ± {held.std(ddof=1):.{digits}f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
