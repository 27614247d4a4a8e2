"""Explanations: does "whom a node listens to" say anything, and do its reasons add up?

    python -m experiments.explanation_study [--seeds 5] [--show]

Cora, 20 labels a class, as it is and with half as many random links added. One cell is one graph
and seed. Measured are, in a fit that classifies:

- *Effective neighbours*: 1 / sum of squared shares, over the number of neighbours, of the nodes
  that have two or more; 1 is a plain mean. What a node keeps for itself does not count.
- *Real above random*: inside one neighbourhood, the probability that a real link scores above an
  added one; mean over the nodes that have both kinds.
- *Fidelity*: by how much the probability of the predicted class falls, and how far all classes'
  probabilities move (total variation), when half of a node's links are taken away and the graph is
  read anew without a fit: the half with the highest scores, a random half (mean of two), the half
  with the lowest; on Cora as it is. Falls of a random half cancel out and their mean is near 0, so
  that no ratio is shown but the distance to three times theirs; how far predictions move has one.
- *Contributions*: the largest distance between the log-odds that an explanation shows and the sum
  of its parts, all nodes and levels.

Scores of a link are the weight of its message in the first layer, the group attention alone, the
block model's odds (minus the exported surprise), and as baselines the cosine of the two ends' words
and of words averaged over three steps. Cells are lines of ``results/explanation.jsonl``.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.cell_file import Plan, command, follow
from experiments.few_labels import find_graph
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.metrics import class_metrics
from graphham.evaluate.running import one_thread
from graphham.evaluate.splits import hide_labels, node_split
from graphham.evaluate.tables import Column, Spread, Table
from graphham.graph.graph import Graph
from graphham.groups.contributions import surprise_of_links
from graphham.groups.group_map import smoothed, unit_rows
from graphham.groups.mixtures import count_link_table, link_odds
from graphham.methods.graphham import GraphHAM
from graphham.methods.registry import make_method
from graphham.model.inputs import NodeInputs
from graphham.readout.whole_graph import full_batch
from graphham.results.encoder import Encoder, class_scores

Array = npt.NDArray[Any]
FILE = Path(__file__).parent / "results" / "explanation.jsonl"
GRAPH, NOISE, PROTOCOL, SEEDS = "cora", 50, "few20", 10
SCORES = {
    "weight": "weight of the message, layer 1",
    "group": "group attention, layer 1",
    "odds": "odds of the block model",
    "cosine": "cosine of words",
    "smooth": "cosine of averaged words",
}
TARGETS = {"effective_1": "<= 0.85", "auc": ">= 0.90", "ratio": ">= 3", "parts_error": "<= 0.0001"}
_TESTED = 120  # nodes whose links are taken away
_RANDOM_HALVES = 2
_TESTED_FROM = 10  # seeds


def measure_cell(cell: Cell) -> Record:
    """Fit the cell's graph with few labels and ask what its explanations are worth."""
    graph = find_graph(cell.graph, cell.seed)
    split = node_split(graph, cell.protocol, seed=cell.seed)
    assert graph.labels is not None
    assert graph.labels.codes is not None
    with one_thread():
        began = time.process_time()
        method = make_method(cell.method, seed=cell.seed, **cell.settings)
        assert isinstance(method, GraphHAM)
        method.fit(
            hide_labels(graph, split.test),
            task="classify",
            train_rows=split.train,
            validation_rows=split.validation,
        )
        spent = time.process_time() - began
        metrics: Record = explanation_scores(method, graph)
        base, plus, _ = cell.graph.partition("+")
        if plus:
            metrics["auc"] = noise_auc(method, graph, find_graph(base, cell.seed))
        else:
            metrics["fidelity"] = fidelity(method, graph, split.test, cell.seed)
    assert method.class_scores_ is not None
    said = method.class_scores_.argmax(axis=1)[split.test]
    metrics["accuracy"] = class_metrics(graph.labels.codes[split.test], said)["accuracy"]
    return {"metrics": metrics, "cost": {"cpu_seconds": spent}}


def explanation_scores(method: GraphHAM, graph: Graph) -> Record:
    """Return effective neighbours per layer, and how well contributions add up."""
    encoder = method._encoder
    inputs = encoder.inputs_of(graph, method.ids_)
    found: Record = {}
    for number, weights in enumerate(layer_weights(encoder, inputs, graph), 1):
        found[f"effective_{number}"] = effective_share(graph, weights["weight"])
    found["parts_error"] = parts_error(method, graph, inputs)
    return found


def layer_weights(encoder: Encoder, inputs: NodeInputs, graph: Graph) -> list[dict[str, Array]]:
    """Return per layer what each stored link weighs: node and group attention, and the message."""
    batch = full_batch(encoder.model, inputs, graph)
    out = []
    with torch.no_grad():
        encoder.model.eval()
        for level, one in enumerate(encoder.model.encode(batch)):
            block = batch.blocks[level]
            made = encoder.model.layer(level).attention_weights(one.x, block, one.assigned.z)
            kept = np.ones(block.num_edges, dtype=bool)
            if block.self_edge:
                kept[block.indptr[:-1]] = False
            parts = {"node": made.node, "group": made.group, "weight": made.weight}
            out.append({name: part.mean(1).numpy()[kept] for name, part in parts.items()})
    return out


def link_scores(method: GraphHAM, graph: Graph) -> dict[str, Array]:
    """Return every score of every stored link, by the keys of :data:`SCORES`."""
    inputs = method._encoder.inputs_of(graph, method.ids_)
    first = layer_weights(method._encoder, inputs, graph)[0]
    member = np.asarray(method.result_.memberships[0], dtype=np.float32)
    table = count_link_table(graph.indptr, graph.indices, graph.weights, member)
    surprise = surprise_of_links(graph.indptr, graph.indices, member, link_odds(member, table))
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    words = np.asarray(inputs.rows(np.arange(graph.num_nodes)).to_dense(), dtype=np.float32)
    near = smoothed(words, graph)
    views = {"cosine": unit_rows(words), "smooth": unit_rows(near - near.mean(0))}
    cosines = {
        name: np.einsum("ij,ij->i", x[source], x[graph.indices]) for name, x in views.items()
    }
    return {"weight": first["weight"], "group": first["group"], "odds": -surprise, **cosines}


def effective_share(graph: Graph, weights: Array) -> float:
    """Return effective neighbours over neighbours, mean over nodes with two or more."""
    degrees = graph.degrees()
    source = np.repeat(np.arange(graph.num_nodes), degrees)
    total = np.bincount(source, weights, graph.num_nodes)
    squares = np.bincount(source, weights.astype(np.float64) ** 2, graph.num_nodes)
    several = degrees >= 2
    share = total[several] ** 2 / np.maximum(squares[several], 1e-30) / degrees[several]
    return float(share.mean())


def noise_auc(method: GraphHAM, graph: Graph, real: Graph) -> dict[str, float]:
    """Return how well each score ranks the real links of a node above its random ones."""
    n = graph.num_nodes
    source = np.repeat(np.arange(n), graph.degrees())
    there = np.repeat(np.arange(n), real.degrees()) * n + real.indices
    is_real = np.isin(source * n + graph.indices, there)
    scores = link_scores(method, graph)
    return {name: neighborhood_auc(graph.indptr, is_real, one) for name, one in scores.items()}


def neighborhood_auc(indptr: Array, is_real: Array, score: Array) -> float:
    """Return the mean over nodes of P(real link above random link), ties counted half."""
    values = []
    for first, last in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        real, held = is_real[first:last], score[first:last]
        if real.any() and not real.all():
            gap = held[real][:, None] - held[~real][None]
            values.append(float((gap > 0).mean() + 0.5 * (gap == 0).mean()))
    return float(np.mean(values)) if values else float("nan")


def fidelity(method: GraphHAM, graph: Graph, rows: Array, seed: int) -> dict[str, Any]:
    """Return how far the predicted class falls without half of the links, by score and half.

    Args:
        method: A fit that classifies.
        graph: The graph it was fitted on.
        rows: Nodes whose links may be taken away.
        seed: Draws some of them and the random halves.
    """
    draw = np.random.default_rng([seed, 7])
    several = rows[graph.degrees()[rows] >= 2]
    chosen = draw.permutation(several)[:_TESTED]
    scores = link_scores(method, graph)
    whole = read_classes(method, graph)
    falls: dict[str, list[float]] = {}
    moves: dict[str, list[float]] = {}

    def drop(name: str, row: int, links: Array) -> None:
        pairs = np.column_stack([np.full(len(links), row), graph.indices[links]])
        left = read_classes(method, graph.without_edges(pairs))
        best = int(whole[row].argmax())
        falls.setdefault(name, []).append(float(whole[row, best] - left[row, best]))
        moves.setdefault(name, []).append(float(np.abs(whole[row] - left[row]).sum()) / 2)

    for row in chosen.tolist():
        links = np.arange(graph.indptr[row], graph.indptr[row + 1])
        half = len(links) // 2
        for _ in range(_RANDOM_HALVES):
            drop("random", row, draw.permutation(links)[:half])
        for name, score in scores.items():
            # Ties in random order, so that equal scores are no order at all.
            mixed = draw.permutation(links)
            order = mixed[np.argsort(-score[mixed], kind="stable")]
            drop(f"{name} highest", row, order[:half])
            drop(f"{name} lowest", row, order[-half:])
    means = {name: float(np.mean(values)) for name, values in falls.items()}
    moved = {name: float(np.mean(values)) for name, values in moves.items()}
    return {"nodes": len(chosen), **means, "moved": moved}


def read_classes(method: GraphHAM, graph: Graph) -> Array:
    """Return class probabilities of a graph's nodes as the fitted network reads them now."""
    encoder = method._encoder
    inputs = encoder.inputs_of(graph, method.ids_)
    with torch.no_grad():
        encoder.model.eval()
        passes = encoder.model.encode(full_batch(encoder.model, inputs, graph))
        states = torch.cat([one.output for one in passes], dim=1).numpy()
        return class_scores(encoder.class_logits(states, graph, inputs), encoder.is_multi)


def parts_error(method: GraphHAM, graph: Graph, inputs: NodeInputs) -> float:
    """Return the largest distance of the shown log-odds from the sum of their parts."""
    reasons = functools.partial(method._encoder.reasons, graph, inputs, result=method.result_)
    return max(
        abs(parts.total - parts.log_odds)
        for row in range(graph.num_nodes)
        for parts in reasons(row=row)
    )


def study_cells(seeds: Sequence[int], method: str = "graphham") -> list[Cell]:
    """Return the cells of the study, seed by seed."""
    graphs = (GRAPH, f"{GRAPH}+{NOISE}")
    return [Cell("explain", g, PROTOCOL, method, seed=s) for s in seeds for g in graphs]


def tables(records: Mapping[str, Record], seeds: Sequence[int]) -> list[Table]:
    """Return the study as two tables: what there is one number for, and what each score gives."""
    cells = study_cells(seeds)
    done = [
        records[cell.key] for cell in cells if records.get(cell.key, {}).get("status") == "done"
    ]
    by_graph = {
        graph: [one["metrics"] for one in done if one["cell"]["graph"] == graph]
        for graph in dict.fromkeys(cell.graph for cell in cells)
    }
    plain, noisy = (f"{GRAPH}", f"{GRAPH}+{NOISE}")
    names = {
        "effective_1": "effective neighbours / neighbours, layer 1",
        "effective_2": "effective neighbours / neighbours, layer 2",
        "parts_error": "shown log-odds against the sum of parts, largest distance",
        "accuracy": "accuracy, 20 labels a class",
    }
    first = tuple(
        {
            "measure": title,
            "target": TARGETS.get(name),
            **{graph: _spread([one.get(name) for one in by_graph[graph]]) for graph in by_graph},
        }
        for name, title in names.items()
    )
    columns = (
        Column("measure", "measure"),
        Column(plain, "Cora", "text"),
        Column(noisy, f"Cora + {NOISE}% random links", "text"),
        Column("target", "target"),
    )
    shown = tuple({**row, **{g: _digits(row[g]) for g in by_graph}} for row in first)
    note = f"Mean and deviation over {len(by_graph[plain])} seeds (labels, fit, random links)."
    return [
        Table("Explanations: one number each", columns, shown, (note,), "numbers"),
        _score_table(by_graph[plain], by_graph[noisy]),
    ]


def _score_table(plain: Sequence[Record], noisy: Sequence[Record]) -> Table:
    rows = []
    for name, title in SCORES.items():
        falls = {
            half: [one["fidelity"][key] for one in plain]
            for half, key in (
                ("highest", f"{name} highest"),
                ("random", "random"),
                ("lowest", f"{name} lowest"),
            )
        }
        # Cells measured before distances were kept have no ratio.
        moved = [one["fidelity"]["moved"] for one in plain if "moved" in one["fidelity"]]
        random = float(np.mean([one["random"] for one in moved])) if moved else 0.0
        highest = [one[f"{name} highest"] for one in moved]
        ratio = float(np.mean(highest)) / random if random > 0 else None
        rows.append(
            {
                "score": title,
                "auc": _spread([one["auc"][name] for one in noisy if "auc" in one]),
                **{half: _spread(values) for half, values in falls.items()},
                "margin": _margin(falls["highest"], falls["random"]),
                "ratio": ratio,
            }
        )
    rows.append({"score": "target", "auc": TARGETS["auc"], "ratio": TARGETS["ratio"]})
    shown = tuple({k: _digits(v) if k != "score" else v for k, v in row.items()} for row in rows)
    columns = (
        Column("score", "score of a link"),
        Column("auc", "real above random"),
        Column("highest", "highest half gone"),
        Column("random", "random half gone"),
        Column("lowest", "lowest half gone"),
        Column("margin", "highest less 3 x random"),
        Column("ratio", "moved, highest / random"),
    )
    notes = (
        f"Real above random: AUC inside a neighbourhood of Cora with {NOISE}% random links. The "
        f"three columns after it are the fall of the predicted class's probability on Cora, then "
        f"by how much that of the highest half is above three times that of a random half, with "
        f"its standard error and the one-sided p of a t-test over seeds; the last is the total "
        f"variation of all classes' probabilities, highest over random half.",
    )
    return Table("Explanations: scores of links", columns, shown, notes, "scores")


def _margin(highest: Sequence[float], random: Sequence[float]) -> str | None:
    """Say by how much the highest half is above three times a random half, seed by seed."""
    from scipy.stats import ttest_1samp

    above = np.array(highest) - 3 * np.array(random)
    if len(above) < 2:
        return None
    error = float(above.std(ddof=1) / np.sqrt(len(above)))
    shown = f"{above.mean():+.3f} ± {error:.3f}"
    if len(above) < _TESTED_FROM or not error:
        return shown
    return f"{shown}, p {ttest_1samp(above, 0, alternative='greater').pvalue:.1g}"


def _spread(values: Sequence[float | None]) -> Spread | None:
    held = [value for value in values if value is not None]
    if not held:
        return None
    return Spread(float(np.mean(held)), float(np.std(held, ddof=1)) if len(held) > 1 else 0.0)


def _digits(value: Any) -> str | None:
    if isinstance(value, Spread):
        small = value.mean and abs(value.mean) < 5e-4
        return f"{value.mean:.1e}" if small else f"{value.mean:.3f} ± {value.deviation:.3f}"
    return f"{value:.2f}" if isinstance(value, float) else value


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing and print the tables."""
    parser = command("explanation_study", __doc__, FILE)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(arguments)
    seeds = range(given.seeds)

    def plan() -> Plan:
        return study_cells(seeds), lambda records: tables(records, seeds)

    return follow(given, measure_cell, plan)


if __name__ == "__main__":
    sys.exit(main())
