"""Compiled code gives one answer, whichever copy of a function a process happens to run."""

import importlib
import os
import pkgutil
import subprocess
import sys

import graphham


def compiled_functions():
    from numba.core.dispatcher import Dispatcher

    for module in pkgutil.walk_packages(graphham.__path__, "graphham."):
        if module.name.endswith("__main__"):
            continue
        held = vars(importlib.import_module(module.name))
        for name, value in held.items():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
                yield f"{module.name}.{name}", value


def test_what_compiled_functions_call_is_inlined_or_exact():
    from numba.core.dispatcher import Dispatcher

    loose, calls = [], 0
    for name, function in compiled_functions():
        known = function.py_func.__globals__
        for called in function.py_func.__code__.co_names:
            other = known.get(called)
            if not isinstance(other, Dispatcher):
                continue
            calls += 1
            inline = other.targetoptions.get("inline") == "always"
            if not inline and other.targetoptions.get("fastmath"):
                loose.append(f"{name} calls {called}")
    assert calls > 10  # the walk found what it is about
    assert not loose


STEP = """
import numpy as np, torch
from graphham.kernels.skipgram_loss import RowPairs
draw = np.random.default_rng(0)
weight = torch.from_numpy(draw.standard_normal((40, 16)).astype(np.float32))
grads = torch.from_numpy(draw.standard_normal((90, 16)).astype(np.float32))
squares = torch.zeros(40)
for _ in range(5):
    RowPairs.plain(torch.from_numpy(draw.integers(0, 40, 90)), grads).update(weight, squares, 0.1)
print(weight.numpy().tobytes().hex(), squares.numpy().tobytes().hex())
"""


def test_code_just_compiled_and_code_from_disk_give_the_same_bits(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", STEP]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*pair_update*.nbc"))
    assert first == second
