"""Checkpoints of several processes, played by threads: any number of them reads any other's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.training import checkpoints
from graphham.training.shared_checkpoints import (
    check_shared,
    load_together,
    save_together,
)
from tests.parallel.test_partitioned_graph import Table, ThreadRanks

NODES = 10


@dataclass(frozen=True)
class SharingRanks(ThreadRanks):
    """Threads that also share arrays."""

    def share_array(self, values: Any) -> Any:
        return self._all(values)[0].copy()


class Folder:
    """The run folder of the first process."""

    def __init__(self, partial: Path) -> None:
        self.partial = partial

    def save_checkpoint(self, arrays: Any, meta: Any, number: int | None = None) -> None:
        checkpoints.save_checkpoint(self.partial, arrays, meta, number)


def together(count: int, work: Any) -> list[Any]:
    """Run ``work(ranks)`` as ``count`` processes; return their answers in the order of ranks."""
    table = Table(count)
    with ThreadPoolExecutor(count) as pool:
        return list(
            pool.map(lambda rank: work(SharingRanks(rank, count, table=table)), range(count))
        )


def tables(ranks: Ranks, key: int) -> list[RowShards]:
    """A factored and a full table; the key decides their rows, whoever holds them."""
    made = [RowShards(NODES, each, 3, key + each, ranks, "cpu") for each in (1, 2)]
    for table in made:
        table.squares.copy_(table.weight.abs().sum(1))
    return made


def run_of(ranks: Ranks, folder: Path) -> Any:
    return Folder(folder) if ranks.is_first else None


def save(ranks: Ranks, folder: Path, key: int = 7) -> None:
    held = {"w": np.arange(4) + key}
    save_together(run_of(ranks, folder), ranks, held, {"epoch": key}, tables(ranks, key))


@pytest.mark.parametrize("savers", [1, 3])
@pytest.mark.parametrize("readers", [1, 2, 4])
def test_rows_are_found_again_by_any_number_of_processes(
    savers: int, readers: int, tmp_path: Path
) -> None:
    together(savers, lambda ranks: save(ranks, tmp_path))

    def load(ranks: Ranks) -> Any:
        fresh = tables(ranks, 99)
        held = load_together(run_of(ranks, tmp_path), ranks, fresh)
        return held, fresh

    answers = together(readers, load)
    for level, whole in enumerate(tables(ALONE, 7)):
        read = [fresh[level] for _, fresh in answers]
        assert torch.equal(torch.cat([part.weight for part in read]), whole.weight)
        assert torch.equal(torch.cat([part.squares for part in read]), whole.squares)
    for (arrays, meta), _ in answers:
        np.testing.assert_array_equal(arrays["w"], np.arange(4) + 7)
        assert meta["epoch"] == 7


def test_the_former_checkpoint_counts_until_the_pointer_is_switched(tmp_path: Path) -> None:
    together(2, lambda ranks: save(ranks, tmp_path))
    before = sorted(p.name for p in tmp_path.iterdir())
    # A job killed after its parts were written and before the first process switched over.
    checkpoints.write_part(tmp_path, 2, 0, {"table.0.weight": np.zeros(3)})
    fresh = tables(ALONE, 99)
    held = load_together(run_of(ALONE, tmp_path), ALONE, fresh)
    assert held is not None
    assert held[1]["epoch"] == 7
    assert torch.equal(fresh[0].weight, tables(ALONE, 7)[0].weight)
    together(2, lambda ranks: save(ranks, tmp_path, key=8))
    after = sorted(p.name for p in tmp_path.iterdir())
    assert len(after) == len(before)  # nothing of the old ones is left, nor of the half-written one
    assert load_together(run_of(ALONE, tmp_path), ALONE, tables(ALONE, 0))[1]["epoch"] == 8


def test_only_who_needs_a_damaged_part_is_stopped_by_it(tmp_path: Path) -> None:
    together(2, lambda ranks: save(ranks, tmp_path))
    (part,) = tmp_path.glob("*.part-00001.safetensors")
    content = bytearray(part.read_bytes())
    content[-3] ^= 1
    part.write_bytes(content)

    def load(ranks: Ranks) -> str:
        try:
            load_together(run_of(ranks, tmp_path), ranks, tables(ranks, 0))
        except InputError as error:
            return str(error)
        return "read"

    first, second = together(2, load)
    assert first == "read"
    assert "does not match its checksum" in second
    part.unlink()
    assert "is missing or cut short" in together(2, load)[1]


def test_without_tables_the_first_process_writes_alone(tmp_path: Path) -> None:
    def both(ranks: Ranks) -> Any:
        save_together(run_of(ranks, tmp_path), ranks, {"w": np.ones(2)}, {"epoch": 3}, [])
        return load_together(run_of(ranks, tmp_path), ranks, [])

    for arrays, meta in together(2, both):
        assert arrays["w"].tolist() == [1, 1]
        assert meta == {"epoch": 3}
    assert not list(tmp_path.glob("*.part-*"))


def test_a_fit_that_keeps_no_run_writes_nothing(tmp_path: Path) -> None:
    def both(ranks: Ranks) -> Any:
        save_together(None, ranks, {}, {}, tables(ranks, 1))
        return load_together(None, ranks, tables(ranks, 1))

    assert together(2, both) == [None, None]
    assert load_together(Folder(tmp_path), ALONE, []) is None


def test_a_folder_that_one_process_does_not_see_is_refused_by_all(tmp_path: Path) -> None:
    def check(ranks: Ranks) -> str:
        try:
            check_shared(ranks, tmp_path if ranks.is_first else tmp_path / "elsewhere")
        except InputError as error:
            return str(error)
        return "seen"

    assert all("put --out on a file system" in answer for answer in together(2, check))
    check_shared(ALONE, tmp_path)
