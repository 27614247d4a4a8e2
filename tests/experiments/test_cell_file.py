"""Cells as lines of a file: resuming, refusals, order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.cell_file import read_cells, run, sort_cells
from graphham.errors import InputError
from graphham.evaluate.cells import Cell


def test_a_run_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    seen: list[int] = []

    def measure(cell: Cell) -> dict[str, Any]:
        seen.append(cell.seed)
        if cell.seed == 2:
            raise InputError("no")
        return {"metrics": {"accuracy": 0.5}}

    path = tmp_path / "new" / "cells.jsonl"
    cells = [Cell("classify", "cora", "few5", "gcn", seed=draw) for draw in (3, 2, 1)]
    said: list[str] = []
    run(cells[:2], path, measure, said.append)
    run(cells, path, measure, said.append)
    assert seen == [3, 2, 1]
    assert said[:2] == ["1/2 cora few5 gcn 3: 0.5", "2/2 cora few5 gcn 2: no"]
    sort_cells(path)
    found = read_cells(path)
    assert [r["cell"]["seed"] for r in found.values()] == [1, 2, 3]
    assert [r["status"] for r in found.values()] == ["done", "refused", "done"]
    assert "commit" in found[cells[0].key]["versions"]
    # Settings and budget are part of what a cell is.
    other = Cell("classify", "cora", "few5", "gcn", seed=3, settings={"dim": 8})
    assert other.key not in found
    path.write_text("{}\n")
    with pytest.raises(InputError, match=r"line 1 of .*cells\.jsonl is no cell"):
        read_cells(path)
