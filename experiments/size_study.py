"""What does a large graph cost, and what comes out: a hundred thousand nodes, K not given.

    python -m experiments.size_study [--nodes 100000] [--show]

A planted tree of 48 groups in 8 (50/33/17 per cent of the links inside the fine group, inside the
coarse one, and elsewhere; mean degree 10), with two families of words, one of them weak. Nobody
says how many groups there are. The fit runs in a process of its own; seconds of processor time and
the largest resident memory are taken apart by phase: the search for K, the fit of the groups,
training, read-out, and all that is left. Beside it are Leiden's best resolution for each level,
chosen by the truth, and logistic regression on vectors and on smoothed main directions of the words
(2,000 labels). Cells are lines of ``results/size.jsonl``.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.cell_file import Plan, command, follow
from experiments.hierarchy_peers import system_python
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.tables import Column, Table
from graphham.graph.planted import PlantedGraph, planted_hierarchy

FILE = Path(__file__).parent / "results" / "size.jsonl"
NODES = 100_000
FAMILIES = {"words": 960, "weak-words": 240}  # size of the vocabulary, shared out over 48 groups
SHARES = (0.5, 0.33, 0.17)
TARGETS = {"cpu": "<= 50", "gib": "<= 1.2"}
RESOLUTIONS = (0.5, 0.75, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
_LABELS, _TESTED = 2000, 20_000


def draw_graph(family: str, nodes: int, seed: int) -> PlantedGraph:
    """Return the planted graph of a family."""
    return planted_hierarchy(
        (8, 6), nodes, mean_degree=10, edge_shares=SHARES, seed=seed, words=FAMILIES[family]
    )


class Phases:
    """Takes processor time and largest memory of named parts of a fit; nested parts count once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak: dict[str, float] = {}
        self._inside = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure what happens inside under a name."""
        before, self._inside = self._inside, 0.0
        _forget_peak()
        began = time.process_time()
        try:
            yield
        finally:
            took = time.process_time() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inside
            self.peak[name] = max(self.peak.get(name, 0.0), _peak_gib())
            self._inside = before + took

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is measured under a name."""

        @functools.wraps(work)
        def measured(*given: Any, **named: Any) -> Any:
            with self.part(name):
                return work(*given, **named)

        return measured


def _forget_peak() -> None:
    """Let the system count the largest memory anew, where it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _peak_gib() -> float:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return float("nan")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**20


def fit_in_parts(family: str, nodes: int, seed: int) -> Record:
    """Fit the graph of a family with the number of groups open, and say what each phase cost."""
    from graphham.methods import prepared
    from graphham.methods.graphham import GraphHAM
    from graphham.results.encoder import Encoder
    from graphham.training import plan
    from graphham.training.trainer import Trainer

    planted = draw_graph(family, nodes, seed)
    # Compiled loops are loaded before anything is measured.
    GraphHAM(epochs=1).fit(planted_hierarchy((2, 3), 300, seed=0).graph)
    phases = Phases()
    for name, owner, attribute in (
        ("search", plan, "search_structure"),
        ("groups", prepared, "fit_run_groups"),
        ("training", Trainer, "fit"),
        ("read-out", Encoder, "read"),
    ):
        setattr(owner, attribute, phases.around(name, getattr(owner, attribute)))
    with phases.part("rest"):
        model = GraphHAM(seed=seed).fit(planted.graph)
    facts: Record = {
        "seconds": phases.seconds,
        "gib": phases.peak,
        "groups": list(model.result_.group_counts),
        "used": [int((np.bincount(g) >= 0.001 * nodes).sum()) for g in model.groups_],
        "nmi": nearest_levels(model.groups_, planted.levels),
        "context": [model.history_[0]["context"], model.history_[-1]["context"]],
        "epochs": len(model.history_),
    }
    return facts | {"accuracy": regression(planted, model.embedding_, seed)}


def nearest_levels(found: Sequence[Any], truth: Sequence[Any]) -> list[float]:
    """Return per true level its normalised mutual information with the level found for it."""
    from sklearn.metrics import normalized_mutual_info_score

    levels = [found[min(number, len(found) - 1)] for number in range(len(truth))]
    return [
        float(normalized_mutual_info_score(true, level))
        for true, level in zip(truth, levels, strict=True)
    ]


def regression(planted: PlantedGraph, vectors: npt.NDArray[Any], seed: int) -> dict[str, float]:
    """Return accuracies of logistic regression on vectors, and on smoothed main directions."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from experiments.structure_study import group_inputs

    fine = planted.levels[0]
    order = np.random.default_rng(seed).permutation(len(fine))
    train, test = order[:_LABELS], order[_LABELS : _LABELS + _TESTED]
    smooth = group_inputs(planted.graph)[2]
    found = {}
    for name, x in (("vectors", vectors), ("smoothed", smooth)):
        scaled = StandardScaler().fit(x).transform(x)
        model = LogisticRegression(max_iter=300).fit(scaled[train], fine[train])
        found[name] = float(model.score(scaled[test], fine[test]))
    return found


def best_leiden(planted: PlantedGraph, seed: int) -> Record:
    """Return Leiden's best agreement with each level over a range of resolutions."""
    from sklearn.metrics import normalized_mutual_info_score

    python = system_python("leidenalg")
    script = Path(__file__).parent / "system_script.py"
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            given,
            edges=planted.graph.edge_list(),
            count=planted.graph.num_nodes,
            groups=np.array(RESOLUTIONS),
            seed=seed,
        )
        words = [python, "-I", str(script), "leiden-range", str(given), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"leidenalg failed: {done.stderr.strip().splitlines()[-1]}")
        with np.load(out) as held:
            parts = [held["levels"][at] for at in range(len(RESOLUTIONS))]
            seconds = held["seconds"].tolist()
    scores = [
        [float(normalized_mutual_info_score(true, part)) for part in parts]
        for true in planted.levels
    ]
    return {
        "nmi": [max(row) for row in scores],
        "resolution": [RESOLUTIONS[int(np.argmax(row))] for row in scores],
        "seconds": seconds,
    }


def measure_cell(cell: Cell) -> Record:
    """Measure one family: our fit in a process of its own, or Leiden."""
    nodes = int(cell.settings["nodes"])
    if cell.method == "leidenalg":
        return {"metrics": best_leiden(draw_graph(cell.graph, nodes, cell.seed), cell.seed)}
    words = [sys.executable, "-m", "experiments.size_study", "--child", cell.graph]
    words += ["--nodes", str(nodes), "--seed", str(cell.seed)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"the fit failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    metrics = json.loads(done.stdout.splitlines()[-1])
    total = {"cpu_seconds": sum(metrics["seconds"].values()), "gib": max(metrics["gib"].values())}
    return {"metrics": metrics, "cost": total}


def study_cells(nodes: int = NODES) -> list[Cell]:
    """Return the cells of the study."""
    return [
        Cell("size", family, "K open", method, settings={"nodes": nodes})
        for family in FAMILIES
        for method in ("graphham", "leidenalg")
    ]


def tables(records: Mapping[str, Record], cells: Sequence[Cell]) -> list[Table]:
    """Return what came out and what it cost."""
    found = {
        (cell.graph, cell.method): records[cell.key]
        for cell in cells
        if records.get(cell.key, {}).get("status") == "done"
    }
    quality, cost = [], []
    for family in FAMILIES:
        ours = found.get((family, "graphham"))
        if ours is None:
            continue
        m, leiden = ours["metrics"], found.get((family, "leidenalg"))
        quality.append(
            {
                "family": family,
                "groups": " > ".join(map(str, m["groups"])),
                "used": " > ".join(map(str, m["used"])),
                "nmi": " / ".join(f"{v:.3f}" for v in m["nmi"]),
                "leiden": leiden and " / ".join(f"{v:.3f}" for v in leiden["metrics"]["nmi"]),
                "vectors": f"{m['accuracy']['vectors']:.3f}",
                "smoothed": f"{m['accuracy']['smoothed']:.3f}",
                "context": f"{m['context'][0]:.2f} > {m['context'][1]:.2f}",
            }
        )
        for phase in ("search", "groups", "training", "read-out", "rest"):
            row = {"family": family, "phase": phase}
            row["cpu"] = f"{m['seconds'].get(phase, 0):.1f}"
            row["gib"] = f"{m['gib'].get(phase, 0):.2f}"
            cost.append(row)
        whole = ours["cost"]
        cost.append(
            {
                "family": family,
                "phase": f"all (target {TARGETS['cpu']} CPU-s, {TARGETS['gib']} GiB)",
                "cpu": f"{whole['cpu_seconds']:.1f}",
                "gib": f"{whole['gib']:.2f}",
            }
        )
    heads = {
        "family": "words",
        "groups": "groups (true 48 > 8)",
        "used": "in use",
        "nmi": "NMI fine / coarse",
        "leiden": "Leiden, best resolutions",
        "vectors": "regression on vectors",
        "smoothed": "on smoothed words",
        "context": "context loss",
    }
    columns = tuple(Column(key, title) for key, title in heads.items())
    named = (("family", "words"), ("phase", "phase"), ("cpu", "CPU-s"), ("gib", "peak GiB"))
    return [
        Table("A large graph: what comes out", columns, tuple(quality), (), "quality"),
        Table("A large graph: what it costs", tuple(Column(*n) for n in named), tuple(cost)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing and print the tables."""
    parser = command("size_study", __doc__, FILE)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=FAMILIES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        print(json.dumps(fit_in_parts(given.child, given.nodes, given.seed)))
        return 0

    def plan() -> Plan:
        cells = study_cells(given.nodes)
        return cells, lambda records: tables(records, cells)

    return follow(given, measure_cell, plan)


if __name__ == "__main__":
    sys.exit(main())
