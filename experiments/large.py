"""Say what the run on a planted graph of Amazon size found: its learning curve, time and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphham.evaluate.tables import Column, Table

# Written by scripts/planted_run.py.
FILE = "planted_run.jsonl"
_GOAL = 0.8


def read_run(root: str | Path) -> list[dict[str, Any]]:
    """Return the lines of the stored run: what it is about, its epochs, and its end if it ended."""
    path = Path(root) / FILE
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def large_section(root: str | Path) -> str:
    """Return the section of RESULTS.md; empty where the run was never made."""
    lines = read_run(root)
    epochs = [line for line in lines if line["part"] == "epoch"]
    if not epochs:
        return ""
    about, last = lines[0], lines[-1]
    top = max(int(name.split("_")[1]) for name in epochs[0] if name.startswith("nmi_"))
    points = [{"steps": 0, **about}, *epochs]
    reached = next((line for line in points if line[f"nmi_{top}"] >= _GOAL), None)
    tree = " > ".join(f"{count:,}" for count in about["settings"]["groups"])
    when = "not reached yet"
    if reached is not None:
        hours = reached.get("cpu_hours", about["inputs_cpu_hours"])
        when = f"reached after {reached['steps']:,} steps and {hours:.2f} CPU-hours"
    text = [
        "## A planted hierarchy of Amazon size",
        "",
        "`python scripts/planted_run.py STORE --out RUN` (`--resume` goes on after a kill): "
        f"{about['nodes']:,} nodes, {about['stored_edges']:,} directed edges, groups {tree}, "
        f"measured {about['when']} on one thread of a machine shared with other work.",
        "",
        f"NMI of at least {_GOAL} with the planted upper level: {when}. "
        f"NMI of the curve is that of {about['sample']:,} fixed nodes with sampled neighbours; "
        "preparing inputs is part of the hours. Measured before the groups became a "
        "block model: they started at smoothed features of random nodes, which is what step 0 "
        "scores, and were clustered anew halfway.",
        "",
    ]
    if last["part"] == "end":
        levels = ", ".join(f"level {i} {last[f'nmi_{i}']:.3f}" for i in range(1, top + 1))
        text += [
            f"At the end, all nodes with all neighbours: NMI {levels}; {last['cpu_hours']:.2f} "
            f"CPU-hours, {last['hours']:.2f} hours on the clock, peak memory "
            f"{last['peak_gib']:.2f} GiB with mapped files, reading all nodes included.",
            "",
        ]
    columns = (
        Column("steps", "steps", "count"),
        Column("loss", "loss", "score"),
        *(Column(f"nmi_{i}", f"NMI {i}", "score") for i in range(1, top + 1)),
        Column("cpu_hours", "CPU-hours", "score"),
        Column("peak_gib", "peak GiB", "score"),
    )
    first = {"loss": None, "cpu_hours": about["inputs_cpu_hours"], "peak_gib": None}
    rows = tuple({**first, **point} for point in points)
    return "\n".join(text) + "\n" + Table("", columns, rows).markdown()
