"""Without resource and fcntl, as on Windows, everything a new user does still works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphham.system.locks import try_lock
from graphham.system.peak_memory import machine_memory, peak_memory

CODE = """
import importlib, pkgutil, sys
import numpy  # before os loses what it has
import scipy, torch, numba, pyarrow, sklearn
from tests.other_systems import hide
hide()
import graphham
for module in pkgutil.walk_packages(graphham.__path__, "graphham."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
for name in ("resource", "fcntl"):
    for module in list(sys.modules.values()):
        if module.__name__.startswith("graphham"):
            assert getattr(module, name, None) is None, module

from graphham.cli.main import main
from graphham.system.peak_memory import peak_memory
assert peak_memory() >= 0
folder = sys.argv[1]
with open(f"{folder}/e.csv", "w") as file:
    file.writelines(f"{i},{(i * k + 1) % 60}\\n" for i in range(60) for k in (1, 2, 7))
import graphham.io.files as files
import graphham.io.reader as reader
reader.read_edges.__kwdefaults__["in_memory_bytes"] = 0  # by way of the disk
assert main(["ingest", f"{folder}/e.csv", "--out", f"{folder}/store", "--verify"]) == 0
assert main(["fit", f"{folder}/store", "--epochs", "2", "--dim", "8", "--groups", "4,2",
             "--out", f"{folder}/run"]) == 0
assert main(["export", f"{folder}/run", "--out", f"{folder}/x.csv"]) == 0
assert main(["evaluate", "links", f"{folder}/store", "--methods", "deepwalk", "--seeds", "0",
             "--out", f"{folder}/cells"]) == 0
model = graphham.load(f"{folder}/run")
assert model.transform(model._need_graph("x")).shape == (60, 8)
print("all well")
"""


def test_everything_works_without_what_windows_lacks(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", ""), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all well" in done.stdout


def test_memory_is_told_with_and_without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = peak_memory()
    assert 1 << 20 < usual < 1 << 40
    monkeypatch.setattr("graphham.system.peak_memory.resource", None)
    if Path("/proc/self/status").exists():
        assert abs(peak_memory() - usual) < 0.2 * usual
    monkeypatch.delattr(os, "sysconf")
    assert machine_memory() is None


def test_a_lock_is_held_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [os.open(tmp_path / "claim", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    assert try_lock(handles[0])
    assert not try_lock(handles[1])
    monkeypatch.setattr("graphham.system.locks.fcntl", None)
    assert try_lock(handles[1])  # no system to ask: better to work than to refuse
    for handle in handles:
        os.close(handle)
