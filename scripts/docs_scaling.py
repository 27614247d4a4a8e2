"""Write docs/scaling.md: how to use several processes, and what a very large graph would take.

The measured numbers come from ``experiments/results/scale.jsonl``, which is what
``python scripts/measure_scale.py STORE`` prints; the rest is arithmetic from the code's arrays.
"""

from __future__ import annotations

import json
from pathlib import Path

from graphham.model import GraphHAMNet, NetworkSettings
from graphham.training.traffic import step_traffic

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "experiments" / "results" / "scale.jsonl"
PAGE = ROOT / "docs" / "scaling.md"

NODES, EDGES = 10**9, 50 * 10**9
RANKS = 128
# Targets and pairs of one shard, and the distinct context nodes among them.
TARGETS = 256
PAIRS = 200 * TARGETS
CONTEXT_ROWS = 50_600
# Neighbours that 512 targets draw at fan-out 25 x 25, if no two are the same.
SOURCES = 512 * (25 + 25 * 25)
# Bytes per node of the arrays that the code holds, for K = 16 and 8, dim 128, 100 features; each
# line names the array.
TRAINING = {
    "memberships of both levels (24 float32)": 96,
    "order of the epoch (int64)": 8,
    "stamps of the sampler, one worker (int64)": 8,
    "degrees (float32)": 4,
}
GROUPS = {
    "own and smoothed main directions, and both joined (4 x 64 float32)": 1024,
    "memberships, logits and their neighbours' (5 x 16 float32)": 320,
}
READ_OUT = {
    "states of both layers, which become the embedding (128 float32)": 512,
    "projected states and assignments of one layer (80 float32)": 320,
    "memberships of both levels (24 float32)": 96,
}
TEMPLATE = ROOT / "scripts" / "scaling.md.in"


def outputs() -> dict[Path, str]:
    """Return the page, filled in."""
    parts = [json.loads(line) for line in MEASURED.read_text("utf-8").splitlines() if line]
    found = {part["part"]: part for part in parts}
    plan, steps = found["plan"], found["steps"]
    names = {
        "inputs": "scaling, main directions, 4 steps of averaging",
        "model": "start of the parameters",
        "steps": f"{steps['count']} training steps",
        "layers": "all layers, all neighbours (part of the read-out)",
        "read-out": "read-out: vectors, memberships, groups, attention gaps",
    }
    rows = [
        f"| {text} | {found[name]['cpu_seconds']} | {found[name]['peak_gib']} GiB |"
        for name, text in names.items()
        if name in found
    ]
    arrays = []
    for title, table in (
        ("training", TRAINING),
        ("fit of the groups", GROUPS),
        ("read-out", READ_OUT),
    ):
        for what, size in table.items():
            arrays.append(f"| {title}: {what} | {size} | {size * NODES / 1e9:,.0f} GB |")
    model = GraphHAMNet(NetworkSettings(groups=(16, 8), dim=128), 100)
    traffic = step_traffic(model, RANKS, RANKS, CONTEXT_ROWS, PAIRS, TARGETS)
    batch, each = steps["batch_size"], steps["seconds_per_step"]
    hours = NODES / batch * each / 3600
    index, bounds, features = 2 * EDGES * 4 / 1e9, 8 * NODES / 1e9, 200 * NODES / 1e9
    read = sum(READ_OUT.values())
    most = max(read, sum(GROUPS.values()))
    text = TEMPLATE.read_text("utf-8").format(
        nodes=plan["nodes"],
        edges=plan["stored_edges"],
        when=found["about"]["when"],
        load=found["about"]["load"],
        rows="\n".join(rows),
        batch=batch,
        step=each,
        epoch=steps["cpu_hours_per_epoch"],
        index=index,
        bounds=bounds,
        features=features,
        store=index + bounds + features,
        arrays="\n".join(arrays),
        ranks=RANKS,
        dense=traffic.gradients / 1e6,
        parameters=sum(p.numel() for p in model.parameters()),
        tables=traffic.tables / 1e6,
        context=CONTEXT_ROWS,
        shared=320 * NODES / 1e9,
        steps_total=NODES / batch,
        hours=hours,
        per_rank=hours / RANKS,
        readout_gb=read * NODES / 1e9,
        groups_gb=sum(GROUPS.values()) * NODES / 1e9,
        training_gb=sum(TRAINING.values()) * NODES / 1e9,
        per_node=most,
        fits=64e9 / most / 1e6,
        part=bounds + (index + features) / RANKS,
        # An entry is asked for with 8 bytes and answered with 4; a row of 100 features has 400.
        asked=SOURCES * (8 + 4 + 8 + 400) / 1e6,
    )
    return {PAGE: text}
