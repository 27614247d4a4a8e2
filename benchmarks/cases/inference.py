"""Vectors and memberships of every node of an Amazon-size graph, all neighbours, no sampling."""

from __future__ import annotations

import time

import torch

from benchmarks import graphs
from benchmarks.context import Context, make_encoder, training_settings
from benchmarks.measure import once, peak_bytes
from benchmarks.results import Result, Value

_GIB = 1 << 30


def measure(context: Context, preset: str = "paper") -> Result:
    """Read the whole graph once with a network that has not been trained."""
    torch.set_num_threads(1)
    result = Result("inference" if preset == "paper" else f"inference-{preset}")
    graph = graphs.load(context.recipe("amazon"))
    began = time.process_time()
    encoder, inputs = make_encoder(graph, training_settings(preset))
    prepared = time.process_time() - began
    small = graphs.load(graphs.Recipe(500, 5.25, (2, 2), 100))
    warm, warm_inputs = make_encoder(small, training_settings(preset))
    warm.read(small, warm_inputs)  # compiles
    taken = once(lambda: encoder.read(graph, inputs))
    result.values += [
        Value("cpu", "all nodes, all neighbours", "CPU-s", [taken.cpu]),
        Value("wall", "the same on the clock", "s", [taken.wall]),
        Value("rss", "peak memory, preparation included", "GiB", [peak_bytes() / _GIB]),
        Value("edges", "edges read", "edges/CPU-s", [2 * graph.num_stored / taken.cpu]),
        Value("prepare", "inputs of all nodes", "CPU-s", [prepared]),
    ]
    result.notes.append(
        f"{preset} preset, untrained weights, {graph.num_nodes:,} nodes and "
        f"{graph.num_stored:,} directed edges, two layers; one run"
    )
    return result
