"""What a process may still take, asked of every place that may limit it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from graphham.cli.failures import explain_failure
from graphham.errors import InputError, ShortMemoryError
from graphham.system.memory_limit import (
    available_memory,
    explain_short,
    is_short,
    naming_short_memory,
)

MIB = 1 << 20


def machine(root: Path, files: dict[str, object]) -> Path:
    """Write files as the system shows them; no own limits are in force in the test."""
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{content}\n")
    return root


MEMINFO = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB"


@pytest.mark.parametrize(
    ("files", "room"),
    [
        ({"proc/meminfo": MEMINFO}, 8 * MIB),
        # Version 2: the tightest group on the way up decides, and cached files count as free.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/a.slice/b",
                "sys/fs/cgroup/a.slice/b/memory.max": "max",
                "sys/fs/cgroup/a.slice/b/memory.current": 5,
                "sys/fs/cgroup/a.slice/memory.max": 7 * MIB,
                "sys/fs/cgroup/a.slice/memory.current": 6 * MIB,
                "sys/fs/cgroup/a.slice/memory.stat": f"anon 9\ninactive_file {2 * MIB}",
            },
            3 * MIB,
        ),
        # A container sees its own group at the top, whatever its name outside.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/docker/123",
                "sys/fs/cgroup/memory.max": 4 * MIB,
                "sys/fs/cgroup/memory.current": MIB,
            },
            3 * MIB,
        ),
        # Version 1, beside other controllers.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "9:cpu:/\n4:hugetlb,memory:/jobs/7\n0::/",
                "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes": 6 * MIB,
                "sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes": 5 * MIB,
                "sys/fs/cgroup/memory/jobs/7/memory.stat": f"total_active_file {MIB}",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
                "sys/fs/cgroup/memory/memory.usage_in_bytes": 5,
            },
            2 * MIB,
        ),
        # More is used than allowed, for a moment.
        (
            {
                "proc/self/cgroup": "0::/",
                "sys/fs/cgroup/memory.max": MIB,
                "sys/fs/cgroup/memory.current": 2 * MIB,
            },
            0,
        ),
        # Nobody says, or nonsense.
        ({}, None),
        ({"proc/meminfo": "MemAvailable:", "proc/self/cgroup": "x\n0::/\n:::"}, None),
    ],
)
def test_the_tightest_limit_counts(tmp_path: Path, files: dict[str, object], room: int) -> None:
    assert available_memory(machine(tmp_path, files)) == room


def test_this_machine_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    room = available_memory()
    assert room is not None
    assert MIB < room < 1 << 50
    monkeypatch.setattr("graphham.system.memory_limit.resource", None)
    assert available_memory() is not None


def test_hidden_files_fall_back_to_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(self: Path, *_: object, **__: object) -> str:
        raise FileNotFoundError(errno.ENOENT, "hidden", str(self))

    monkeypatch.setattr(Path, "read_text", hidden)
    room = available_memory()
    assert room is not None
    assert room > MIB
    monkeypatch.delattr(os, "sysconf")
    assert available_memory() is None
    with naming_short_memory():  # asks, and does without an answer
        pass


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_own_limits_count(name: str) -> None:
    code = f"""
import resource
from graphham.system.memory_limit import available_memory
before = available_memory()
statm = open("/proc/self/statm").read().split()
used = int(statm[0 if {name!r} == "RLIMIT_AS" else 5]) * resource.getpagesize()
resource.setrlimit(resource.{name}, (used + (64 << 20),) * 2)
print(available_memory() >> 20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 55 <= int(done.stdout) <= 64


def failed() -> list[Exception]:
    """Return what libraries raise when memory cannot be had."""
    found: list[Exception] = []
    for ask in (lambda: np.ones(1 << 55), lambda: torch.ones(1 << 55), lambda: bytearray(1 << 60)):
        try:
            ask()
        except (MemoryError, RuntimeError) as error:
            found.append(error)
    assert len(found) == 3
    return [*found, OSError(errno.ENOMEM, "Cannot allocate memory")]


def test_every_failed_allocation_is_one_sentence_with_numbers() -> None:
    for error in failed():
        assert is_short(error), error
        sentence, code = explain_failure(error)
        assert code == 2
        assert "does not fit into memory" in sentence
        assert "are free" in sentence
        assert "\n" not in sentence
    sentences = [explain_short(error, 3 << 30, free=MIB << 5) for error in failed()]
    assert all("about 3.00 GiB are needed in all, 0.03 GiB are free" in text for text in sentences)
    assert "268435456.00 GiB more were asked for" in sentences[0]  # NumPy rounds to 256 PiB
    assert f"{(1 << 57) / (1 << 30):.2f} GiB more were asked for" in sentences[1]


def test_other_errors_stay_what_they_are() -> None:
    for error in (RuntimeError("shapes differ"), KeyError("out of memory"), InputError("memory")):
        assert not is_short(error)
        with pytest.raises(type(error)), naming_short_memory(5):
            raise error


def test_in_python_it_is_both_an_input_error_and_a_memory_error() -> None:
    for kind in (InputError, MemoryError, ShortMemoryError):
        with (
            pytest.raises(kind, match=r"about 0\.05 GiB are needed"),
            naming_short_memory(50 * MIB),
        ):
            torch.ones(1 << 55)
