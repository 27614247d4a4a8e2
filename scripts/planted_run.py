"""Train on a planted hierarchy as large as ogbn-products until its upper level is found again.

    python scripts/planted_run.py STORE --out runs/planted [--resume]

STORE is made now if it is not there: 2,449,029 nodes, 124 M directed edges, 48 groups in 8, ids
shuffled, Gaussian features. After every epoch of a few steps the groups of a fixed sample of nodes
are compared with the planted ones; at the end those of all nodes, read with all neighbours. Time,
memory and the learning curve go to experiments/results/planted_run.jsonl. A killed run goes on
from its last checkpoint with --resume.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphham.config.settings import make_config
from graphham.graph.planted import planted_hierarchy
from graphham.graph.store import is_store, open_store, write_store
from graphham.methods.prepared import prepare
from graphham.methods.starting import make_model
from graphham.model.network import Batch
from graphham.results.encoder import Encoder
from graphham.results.run_writer import resume_run, start_run
from graphham.results.scores import partition_scores
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.sampling.sampler import NeighborSampler
from graphham.system.atomic import write_bytes
from graphham.system.peak_memory import peak_memory
from graphham.system.threads import single_threaded
from graphham.training.epochs import Silent
from graphham.training.plan import plan_fit
from graphham.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]
Codes = Any


class Curve(Silent):
    """Scores a fixed sample of nodes after every epoch and keeps the record on disk.

    Args:
        trainer: Whose network is scored; its history carries the scores through a resume.
        truth: Per level ``(num_nodes,)`` planted groups, fine to coarse.
        sample: Number of nodes to score.
        about: First line of the record.
        path: Where the record is written.
    """

    def __init__(
        self, trainer: Trainer, truth: list[Codes], sample: int, about: dict[str, Any], path: Path
    ) -> None:
        self.trainer, self.truth, self.about, self.path = trainer, truth, about, path
        draw = numpy_generator(derive_key(0, "planted run"))
        nodes = trainer.graph.num_nodes
        self.rows = np.sort(draw.choice(nodes, min(sample, nodes), replace=False))
        self.began = (time.process_time(), time.perf_counter())
        self.before = (0.0, 0.0)

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Carry on the clocks of a resumed run; score the network before its first step."""
        if self.trainer.history:
            last = self.trainer.history[-1]
            self.before = (last["cpu_hours"], last["hours"])
            self.about["peak_gib"] = last["peak_gib"]
        else:
            self.about |= self.scores()
        self.write()

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        """Add steps, clocks, memory and scores to the epoch's record."""
        record["steps"] = epoch * self.trainer.batches.steps_per_epoch
        record |= self.costs()
        record |= self.scores()
        self.write()
        print(json.dumps(record), flush=True)

    def costs(self) -> dict[str, float]:
        """Return hours and peak memory so far, resumed parts included."""
        clocks = (time.process_time(), time.perf_counter())
        cpu, wall = (
            b + (now - a) / 3600 for a, b, now in zip(self.began, self.before, clocks, strict=True)
        )
        peak = max(peak_memory() / 2**30, self.about.get("peak_gib", 0.0))
        return {"cpu_hours": round(cpu, 4), "hours": round(wall, 4), "peak_gib": round(peak, 2)}

    @torch.no_grad()
    def scores(self) -> dict[str, float]:
        """Return NMI per level of the sampled nodes' groups with the planted ones."""
        trainer = self.trainer
        model, config = trainer.model.eval(), trainer.config
        sampler = NeighborSampler(trainer.graph)
        fanouts = [config.fanout(layer) for layer in range(config.num_layers)]
        found: list[list[Codes]] = [[] for _ in self.truth]
        for first in range(0, len(self.rows), 1000):
            rows = self.rows[first : first + 1000]
            blocks = sampler.sample_blocks(rows, fanouts, derive_key(0, "scores", first))
            sources = blocks[0].source_rows
            features = trainer.inputs.rows(sources)
            batch = Batch(blocks, features, trainer.inputs.membership_rows(sources))
            for level, held in enumerate(model(batch).memberships):
                found[level].append(held.argmax(1).numpy())
        return scored(
            [np.concatenate(codes) for codes in found], [t[self.rows] for t in self.truth]
        )

    def write(self, end: dict[str, Any] | None = None) -> None:
        """Write the record anew."""
        lines = [{"part": "about", **self.about}]
        lines += [{"part": "epoch", **record} for record in self.trainer.history]
        if end is not None:
            lines.append({"part": "end", **end})
        write_bytes(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def scored(found: list[Codes], truth: list[Codes]) -> dict[str, float]:
    """Return ``nmi_1``, ``nmi_2`` and so on, fine to coarse."""
    out: dict[str, float] = {}
    for level, (codes, true) in enumerate(zip(found, truth, strict=True)):
        out[f"nmi_{level + 1}"] = round(partition_scores(codes, true)["nmi"], 4)
    return out


def main() -> None:
    """Make the graph if needed, train, read all nodes, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--out", required=True, help="the run folder that holds the checkpoints")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--record", default=str(ROOT / "experiments/results/planted_run.jsonl"))
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--degree", type=float, default=50.5)
    parser.add_argument("--tree", default="8,6", help="children per group, coarse to fine")
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=100, help="steps per epoch")
    parser.add_argument("--sample", type=int, default=20_000, help="nodes scored every epoch")
    given = parser.parse_args()
    tree = tuple(int(part) for part in given.tree.split(","))
    if not is_store(given.store):
        planted = planted_hierarchy(
            tree, given.nodes, mean_degree=given.degree, features="gaussian", dim=100,
            degree_skew=0.5, seed=1,
        )  # fmt: skip
        write_store(planted.graph, given.store)
        del planted
    graph = open_store(given.store)
    assert graph.labels is not None
    assert graph.labels.codes is not None
    leaves = np.asarray(graph.labels.codes)
    below = [math.prod(tree[depth:]) for depth in range(len(tree), 0, -1)]
    truth = [leaves // width for width in below]
    settings = {
        "groups": tuple(math.prod(tree[:depth]) for depth in range(len(tree), 0, -1)),
        "dim": 64 * len(tree),
        "train.batch": "sampled",
        "train.fanouts": tuple(int(part) for part in given.fanouts.split(",")),
        "train.epochs": given.epochs,
        "train.epoch_steps": given.steps,
        "train.workers": 0,
        "train.checkpoint_every": 120.0,
    }
    about = {
        "nodes": graph.num_nodes,
        "stored_edges": graph.num_stored,
        "tree": list(tree),
        "settings": settings,
        "when": time.strftime("%Y-%m-%d"),
        "sample": given.sample,
    }
    with single_threaded():
        plan = plan_fit(graph, make_config(settings))
        config = plan.config
        prepared = prepare(graph, config)
        inputs = prepared.inputs
        model, tables = make_model(graph, config, prepared, plan.table)
        writer = resume_run(given.out) if given.resume else start_run(given.out, config.to_dict())
        with writer:
            trainer = Trainer(model, graph, inputs, config, tables, run=writer)
            about["inputs_cpu_hours"] = round(time.process_time() / 3600, 4)
            curve = Curve(trainer, truth, given.sample, about, Path(given.record))
            curve.before = (about["inputs_cpu_hours"], 0.0)
            trainer.listener = curve
            trainer.fit(given.resume)
            curve.write()
            groups = None if prepared.groups is None else prepared.groups.map
            result = Encoder(model, prepared.features, config, groups=groups).read(graph, inputs)
            curve.write({**curve.costs(), **scored(result.groups, truth)})


if __name__ == "__main__":
    main()
