"""Readers read or refuse what the fuzzer found, and the fuzzer finds what is there to find."""

import random
from collections import Counter
from pathlib import Path

import pytest

from scripts.reliability_fuzz import (
    CORPUS,
    READERS,
    Reader,
    execute,
    fuzz_reader,
    guided,
    stored_corpus,
)


@pytest.mark.filterwarnings("ignore:Reading .*npy:UserWarning")
@pytest.mark.parametrize("name", list(READERS))
def test_the_stored_corpus_is_read_or_refused(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    seeds = reader.seeds()
    counts: Counter[str] = Counter()
    for data in (*seeds, *stored_corpus(name), b"", b"\0"):
        execute(reader, tmp_path, data, counts)
    assert counts["read"] >= 1  # some seeds are good files
    assert set(counts) <= {"executions", "read", "clear errors", "by atheris"}


def test_the_corpus_is_small() -> None:
    assert CORPUS.stat().st_size < 60_000


def hidden_fault(work: Path, data: bytes) -> None:
    if len(data) < 3 or data[0] > 15:
        return
    if data[1] > 15:
        return
    if data[2] > 15:
        return
    raise KeyError("found")


def test_what_reaches_new_lines_leads_further() -> None:
    counts: Counter[str] = Counter()
    found: list[bytes] = []
    reader = Reader(hidden_fault, lambda: [b"abcd"])
    here = str(Path(__file__).parent)
    # Chance alone would need millions of tries.
    guided(reader, [b"abcd"], 8_000, random.Random(1), counts, found.append, here)
    assert found
    assert all(max(data[:3]) < 16 for data in found)
    assert counts["traceback"] == len(found)
    assert counts["executions"] == 8_000


def test_a_reader_is_fuzzed_in_a_process_of_its_own(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert fuzz_reader(tmp_path, "tree", 60, 1, counts) == 60
    assert counts["read"] + counts["clear errors"] == 60
    assert counts["of tree"] == 60
    assert counts["crashed"] == 0
