"""Measure what a fit costs on a large store: inputs and groups, steps, the read-out.

    python scripts/measure_scale.py STORE [--groups 16,8] [--steps 60] [--rounds 1]

Prints one JSON object per part: CPU seconds of this process and the peak of its resident memory
during that part, mapped files included (the counter is reset in between, on Linux); last the day
and how busy the machine was. ``experiments/results/scale.jsonl`` is such an output.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from graphham.config.settings import make_config
from graphham.graph.store import open_store
from graphham.methods.prepared import prepare
from graphham.methods.starting import make_model
from graphham.readout.layerwise import LayerWise
from graphham.results.encoder import Encoder
from graphham.system.threads import single_threaded
from graphham.training.plan import plan_fit
from graphham.training.trainer import Trainer


@contextmanager
def part(name: str, **about: Any) -> Iterator[dict[str, Any]]:
    """Measure a block and print what it cost."""
    Path("/proc/self/clear_refs").write_text("5")
    cpu, wall = time.process_time(), time.perf_counter()
    found: dict[str, Any] = {"part": name, **about}
    yield found
    found["cpu_seconds"] = round(time.process_time() - cpu, 2)
    found["wall_seconds"] = round(time.perf_counter() - wall, 2)
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    found["peak_gib"] = round(int(peak[1]) / 2**20, 2) if peak else None
    print(json.dumps(found), flush=True)


def main() -> None:
    """Measure every part on one store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--groups", default="16,8")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    groups = tuple(int(k) for k in given.groups.split(","))
    graph = open_store(given.store)
    config = make_config(
        {"groups": groups, "dim": given.dim, "train.batch": "sampled", "train.workers": 0}
    )
    with single_threaded():
        with part("plan", nodes=graph.num_nodes, stored_edges=graph.num_stored):
            config = plan_fit(graph, config).config
        with part("inputs"):
            prepared = prepare(graph, config)
        inputs = prepared.inputs
        with part("model"):
            model, tables = make_model(graph, config, prepared, "inductive")
        trainer = Trainer(model, graph, inputs, config, tables)
        steps = trainer.batches.epoch(0)
        trainer._step(next(steps), 0)  # compiled outside the measurement
        with part("steps", count=given.steps, batch_size=config.train.batch_size) as found:
            begin = time.process_time()
            for step in itertools.islice(steps, given.steps):
                trainer._step(step, 0)
            each = (time.process_time() - begin) / given.steps
            found["seconds_per_step"] = round(each, 4)
            epoch = each * trainer.batches.steps_per_epoch / 3600
            found["cpu_hours_per_epoch"] = round(epoch, 3)
        del steps
        for _ in range(given.rounds):
            with part("layers"):
                reading = LayerWise(model, inputs, graph).read()
            del reading
            with part("read-out"):
                groups = None if prepared.groups is None else prepared.groups.map
                Encoder(model, prepared.features, config, groups=groups).read(graph, inputs)
    today = datetime.now()
    when = f"{today.day} {today:%B %Y}"
    print(json.dumps({"part": "about", "when": when, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
