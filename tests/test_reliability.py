"""The reliability suites count what they say, go on where they stopped, and tell a bad row."""

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from scripts import reliability, reliability_kills
from scripts.reliability_commands import quietly
from scripts.reliability_jobs import tear


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
    monkeypatch.setattr(reliability_kills, "WRITER", reliability_kills.die_at_once)
    counts: Counter[str] = Counter()
    reliability_kills.kill_replacing(tmp_path, random.Random(0), counts)
    assert counts == {"writer failed": 1}


def test_killed_processes_are_killed_and_what_they_wrote_stands(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for number in range(5):
        reliability_kills.kill_replacing(tmp_path, random.Random(number), counts)
    assert counts == {"standing at once": 5, "survived": 5, "of replace": 5}
    assert reliability_kills.kill(reliability_kills.forked(lambda: time.sleep(60)))
    ended = reliability_kills.forked(lambda: None)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    assert not reliability_kills.kill(ended)  # it was over before


def test_damaged_files_are_refused_and_counted(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert reliability.fuzz(tmp_path, 0, random.Random(0), counts) == 100
    assert counts["traceback"] == 0
    assert counts["clear errors"] > 50


def test_what_was_not_run_is_said() -> None:
    records = {"kills": {"done": 3, "counts": {"survived": 3}}}
    text, is_clean = reliability.table(records, {"kills": 9, "flips": 5})
    assert is_clean
    assert "only 3 of 9" in text
    assert "NOT RUN" in text


def test_the_clock_ends_a_suite_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reliability.SUITES, "flips", lambda *_: 1)
    asked = ["--suite", "flips", "--results", str(tmp_path / "r.json")]
    assert reliability.run([*asked, "--minutes", "0"]) == 0
    assert reliability.run(asked) == 0
    assert json.loads((tmp_path / "r.json").read_text())["short"]["flips"]["done"] == 600


def test_a_torn_write_is_one_sentence_and_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(300)))
    counts: Counter[str] = Counter()
    arguments = ["ingest", str(tmp_path / "edges.csv"), "--out"]
    tear(arguments, tmp_path / "target" / "store", 500, counts, quietly)
    assert counts == {"torn": 1, "survived": 1}
