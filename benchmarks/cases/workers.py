"""Several workers on one graph: threads that prepare batches, and processes that train."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from benchmarks import graphs, peers
from benchmarks.context import Context, make_trainer, training_settings
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import OURS, ROOT, Comparison, Curve, Result, Value


def measure(context: Context) -> Result:
    """Compare no, one and two preparing threads; then one and two processes."""
    torch.set_num_threads(1)
    result = Result("workers")
    recipe = graphs.sized(context.pick(10_000_000, 20_000), 10.0 if context.quick else 50.0)
    graph = graphs.load(recipe)
    steps = context.pick(20, 2)
    counts = (0, 1, 2)
    sides = {str(count): _threads(graph, count, steps) for count in counts}
    samples = interleave(sides, context.rounds(5))
    result.curves.append(
        Curve(
            "threads",
            "training step against preparing threads",
            "threads that train or prepare",
            [float(1 + count) for count in counts],
            "seconds a step",
            [[sample.wall for sample in samples[str(count)]] for count in counts],
        )
    )
    result.comparisons.append(
        Comparison.of(
            "threads",
            "no preparing thread against one",
            "steps",
            1,
            {OURS: samples["1"], "no preparing thread": samples["0"]},
        )
    )
    _add_processes(context, result, recipe)
    return result


def _add_processes(context: Context, result: Result, recipe: graphs.Recipe) -> None:
    """Compare jobs of one and two processes; the same shards, so the same numbers come out."""
    store, steps = str(graphs.folder(recipe)), context.pick(20, 2)
    sides: dict[str, Side] = {
        OURS: lambda: _job(2, store, steps),
        "one process": lambda: _job(1, store, steps),
        "apart": lambda: _apart(store, steps),
    }
    samples = interleave(sides, context.rounds(25), warm=False)
    apart = samples.pop("apart")
    result.comparisons.append(
        Comparison.of("processes", "two processes, 512 seeds in 2 shards", "steps", 1, samples)
    )
    walls = [[sample.wall for sample in samples[name]] for name in ("one process", OURS)]
    result.curves.append(
        Curve(
            "processes",
            "training step against processes",
            "processes",
            [1.0, 2.0],
            "seconds a step",
            walls,
        )
    )
    pairs = zip(samples["one process"], samples[OURS], strict=True)
    result.values.append(
        Value(
            "processes-cpu",
            "speed-up if each of two processes had a core to itself (2 x CPU of one / CPU of both)",
            "x",
            [2 * alone.cpu / both.cpu for alone, both in pairs],
        )
    )
    result.values.append(
        Value(
            "processes-roof",
            "speed-up of two jobs that share nothing (2 x wall of one alone / of both)",
            "x",
            [
                2 * alone.wall / both.wall
                for alone, both in zip(samples["one process"], apart, strict=True)
            ],
        )
    )
    result.notes.append(
        "jobs start anew every round and only their steps are timed; on a machine whose two cores "
        "are busy the wall ratio says more about the others than about us"
    )


def _apart(store: str, steps: int) -> Sample:
    """Run the job of one process twice at once: what the two cores can give at most."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: _job(1, store, steps), range(2)))
    return Sample(sum(one.cpu for one in both), max(one.wall for one in both))


def _job(count: int, store: str, steps: int) -> Sample:
    """Take steps in ``count`` processes; CPU-seconds are those of all of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    meet["LOCAL_WORLD_SIZE"] = str(count)
    # Gloo otherwise looks the host's own name up, which need not lead anywhere.
    meet["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, "-m", "benchmarks.rank_steps", store, str(steps), "2"]
    running = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**peers.environment(), **meet, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [json.loads(process.communicate()[0].strip().splitlines()[-1]) for process in running]
    return Sample(sum(one["cpu"] for one in said) / steps, max(one["wall"] for one in said) / steps)


def _threads(graph: Any, count: int, steps: int) -> Side:
    settings = training_settings("paper", train__workers=count, model__group_init="random")
    trainer = make_trainer(graph, settings)

    def work() -> None:
        source = trainer.batches.epoch(0)
        for step in itertools.islice(source, steps):
            trainer._step(step, 0)
        source.close()

    def side() -> Sample:
        whole = once(work)
        return Sample(whole.cpu / steps, whole.wall / steps)

    return side
