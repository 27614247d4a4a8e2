"""The reliability suites count what they say, go on where they stopped, and tell a bad row."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from scripts import reliability


def test_a_suite_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def suite(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
        ran.append(done)
        counts["detected"] += 1
        if done == 3 and len(ran) == 4:
            raise KeyboardInterrupt
        return 1

    monkeypatch.setitem(reliability.SUITES, "flips", suite)
    monkeypatch.setitem(reliability.TARGETS["short"], "flips", 6)
    asked = ["--suite", "flips", "--results", str(tmp_path / "r.json")]
    with pytest.raises(KeyboardInterrupt):
        reliability.run(asked)
    kept = json.loads((tmp_path / "r.json").read_text())["short"]["flips"]
    assert kept["done"] >= 1
    assert reliability.run(asked) == 0
    assert ran[4] == kept["done"]  # nothing that was counted is done again
    assert json.loads((tmp_path / "r.json").read_text())["short"]["flips"]["done"] == 6


@pytest.mark.parametrize("what", reliability.BAD)
def test_a_bad_count_makes_a_row_unclean(what: str) -> None:
    row = {"done": 9, "counts": {"survived": 8, what: 0}}
    assert reliability.table({"kills": row})[1]
    row = {"done": 9, "counts": {"survived": 8, what: 1}}
    text, is_clean = reliability.table({"kills": row})
    assert not is_clean
    assert "NOT CLEAN" in text


def test_a_writer_that_dies_by_itself_is_no_survived_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reliability, "_WRITER", "raise SystemExit(1)")
    counts: Counter[str] = Counter()
    reliability.kills(tmp_path, 0, random.Random(0), counts)
    assert counts == {"writer failed": 1}


def test_damaged_files_are_refused_and_counted(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert reliability.fuzz(tmp_path, 0, random.Random(0), counts) == 100
    assert counts["traceback"] == 0
    assert counts["clear errors"] > 50
