"""Too little memory is one sentence with the bytes needed and free, in a real process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphham.graph.planted import planted_hierarchy
from graphham.graph.store import write_store

# The limit is set once the libraries are loaded: what they take differs from machine to machine.
CODE = """
import resource, sys
import pyarrow, scipy.sparse.linalg, torch
import graphham.methods.fitting
from graphham.cli import main
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[1]) * 2**20,) * 2)
{before}
sys.exit(main(sys.argv[2:]))
"""


def limited(mebibytes: int, *arguments: str, before: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before), str(mebibytes), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("short") / "store"
    write_store(planted_hierarchy((2, 3), 3000, mean_degree=4, words=20, seed=1).graph, place)
    return place


def test_a_fit_that_cannot_fit_is_refused_before_it_starts(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = limited(150, "fit", str(store), "--epochs", "1", "-q", "--out", str(out))
    assert code == 2, said
    sentence = said.strip()
    assert sentence.startswith("Error: 3,000 nodes with")
    assert "need at least 2" in sentence  # 256 MiB and a few for so small a graph
    assert "are free" in sentence
    assert "\n" not in sentence
    assert not list(tmp_path.iterdir())


def test_an_allocation_that_fails_is_one_sentence(store: Path, tmp_path: Path) -> None:
    # The user says that there is enough, and there is not: torch or NumPy will notice.
    before = (
        "from graphham.training import step\n"
        "step.TrainingSteps._move = lambda self: torch.ones(1 << 33)\n"
    )
    out = tmp_path / "run"
    arguments = ["fit", str(store), "--groups", "6,2", "--epochs", "1", "--dim", "16", "-q"]
    code, said = limited(1500, *arguments, "--out", str(out), before=before)
    assert code == 2, said
    sentence = said.strip()
    assert sentence.startswith("Error: the work does not fit into memory (32.00 GiB more were")
    assert "are needed in all" in sentence
    assert "bug" not in sentence
    assert "\n" not in sentence


THREADS = """
import sys
from graphham.cli import main
code = main(sys.argv[1:])
import numpy, scipy.linalg
from threadpoolctl import threadpool_info
print(code, max(pool["num_threads"] for pool in threadpool_info()))
"""


def under_limit(mebibytes: int, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a program as a user does who has said ``ulimit -v``."""
    unset = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    return subprocess.run(
        ["sh", "-c", f'ulimit -v {mebibytes << 10}; exec "$0" "$@"', sys.executable, *command],
        env=unset,
        capture_output=True,
        text=True,
        timeout=120,  # the hang that this is about has no end
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is of address room")
def test_with_little_room_libraries_start_no_threads(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nb,c\n")
    done = under_limit(4000, "-c", THREADS, "info", str(tmp_path / "edges.csv"))
    assert done.stdout.splitlines()[-1] == "0 1", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is of address room")
@pytest.mark.parametrize("mebibytes", [250, 800])
def test_a_fit_without_room_for_its_libraries_ends_in_one_sentence(
    store: Path, tmp_path: Path, mebibytes: int
) -> None:
    # With two threads 800 MiB made OpenBLAS wait forever.
    out = tmp_path / "run"
    done = under_limit(mebibytes, "-m", "graphham", "fit", str(store), "-q", "--out", str(out))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "does not fit into memory" in done.stderr
    assert not list(tmp_path.iterdir())
