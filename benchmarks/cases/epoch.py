"""Training at Amazon size: memory at its peak, and the CPU-hours of an epoch.

The process opens the memory-mapped store, prepares inputs, model and context tables as a fit does,
and takes a few hundred real steps. The epoch is extrapolated from them and never run whole here.
"""

from __future__ import annotations

import itertools
import time

import torch

from benchmarks import graphs
from benchmarks.context import Context, make_trainer, training_settings
from benchmarks.measure import peak_bytes
from benchmarks.results import Result, Value

_GIB = 1 << 30
_WARM = 5
_PARTS = 5


def measure(context: Context, preset: str = "paper") -> Result:
    """Take steps of 256 seeds and read the clock every fifth of them."""
    torch.set_num_threads(1)
    name = "epoch" if preset == "paper" else f"epoch-{preset}"
    result = Result(name)
    steps = context.pick(100, 10)
    graph = graphs.load(context.recipe("amazon"))
    began = time.process_time()
    trainer = make_trainer(graph, training_settings(preset))
    prepared = time.process_time() - began
    prepared_peak = peak_bytes()
    size = trainer.config.train.batch_size
    rates: list[float] = []
    walls: list[float] = []
    source = iter(trainer.batches.epoch(0))
    for step in itertools.islice(source, context.pick(_WARM, 1)):
        trainer._step(step, 0)
    for _ in range(_PARTS):
        cpu, wall = time.process_time(), time.perf_counter()
        count = 0
        for step in itertools.islice(source, steps // _PARTS):
            trainer._step(step, 0)
            count += 1
        if count:
            rates.append((time.process_time() - cpu) / (count * size))
            walls.append((time.perf_counter() - wall) / (count * size))
    hours = [rate * graph.num_nodes / 3600 for rate in rates]
    result.values += [
        Value("rss", "peak memory, preparation included", "GiB", [peak_bytes() / _GIB]),
        Value("rss-prepared", "peak memory before the first step", "GiB", [prepared_peak / _GIB]),
        Value("epoch", "one epoch, extrapolated", "CPU-hours", hours),
        Value("rate", "seeds per CPU-second", "seeds/CPU-s", [1 / rate for rate in rates]),
        Value("wall-rate", "seeds per second", "seeds/s", [1 / wall for wall in walls]),
        Value("prepare", "inputs, model and tables", "CPU-s", [prepared]),
    ]
    result.notes.append(
        f"{preset} preset, {steps} steps of {size} seeds on {graph.num_nodes:,} nodes and "
        f"{graph.num_stored:,} directed edges; the epoch is extrapolated from these steps"
    )
    return result
