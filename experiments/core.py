"""Measure what the core promises: planted hierarchies, and Cora unsupervised, classified, linked.

Every cell is one small JSON file under ``experiments/results/core``; a finished cell is never run
again, so the command resumes where it stopped and several processes may share the work. Without a
family it prints the table of the stored cells. ``presets`` measures what each difference between
the two presets is worth, one change at a time, on Cora.

    python experiments/core.py planted embed seeding classify links presets
    python experiments/core.py
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

RESULTS = Path(__file__).parent / "results" / "core"
SHARES = {
    "70-20-10": (0.70, 0.20, 0.10),
    "50-33-17": (0.50, 0.33, 0.17),
    "40-30-30": (0.40, 0.30, 0.30),
}
Cell = tuple[str, str, Callable[[], dict[str, Any]]]


def planted_cells() -> Iterator[Cell]:
    """Yield ten planted graphs per difficulty: ours, two-level Louvain, smoothed k-means."""
    for name, shares in SHARES.items():
        for seed in range(10):

            def run(shares: Any = shares, seed: int = seed) -> dict[str, Any]:
                from graphham.graph.planted import planted_hierarchy

                planted = planted_hierarchy((3, 4), 2000, edge_shares=shares, seed=seed)
                fine, coarse = planted.levels
                graph = planted.graph
                fitted = fit(graph, seed=seed, groups=(12, 3))
                out = {
                    "fine": nmi(fine, fitted.result.groups[0]),
                    "coarse": nmi(coarse, fitted.result.groups[1]),
                    "fine_evidence": nmi(fine, fitted.result.evidence[0]),
                    "coarse_evidence": nmi(coarse, fitted.result.evidence[1]),
                    **held(fitted),
                }
                low, high = louvain_levels(graph.adjacency(), 12, 3, seed)
                out |= {"louvain_fine": nmi(fine, low), "louvain_coarse": nmi(coarse, high)}
                for steps in (1, 2, 3, 4):
                    x = smoothed(graph, steps)
                    out[f"kmeans{steps}_fine"] = nmi(fine, plain_kmeans(x, 12, seed))
                    out[f"kmeans{steps}_coarse"] = nmi(coarse, plain_kmeans(x, 3, seed))
                return out

            yield f"planted-{name}", str(seed), run


def embed_cells() -> Iterator[Cell]:
    """Yield unsupervised fits of the whole Cora graph."""
    for seed in range(5):

        def run(seed: int = seed) -> dict[str, Any]:
            return held(fit(cora(), seed=seed, groups=(16, 7)))

        yield "cora-embed", str(seed), run


def seeding_cells() -> Iterator[Cell]:
    """Yield the graft's seeds on diffused features alone: what the groups owe to no training."""
    for seed in range(5):

        def run(seed: int = seed) -> dict[str, Any]:
            from graphham.config.settings import InputConfig
            from graphham.model.group_seeding import find_seeds
            from graphham.model.inputs import fit_inputs

            graph = cora()
            _, inputs, _ = fit_inputs(graph, InputConfig(), seed)
            held = inputs.diffused.numpy()
            seeds = find_seeds([held, held], graph, (16, 7), seed, 8.0)
            codes = graph.labels.codes
            return {"nmi_1": nmi(codes, seeds.codes[0]), "nmi_2": nmi(codes, seeds.codes[1])}

        yield "cora-seeding", str(seed), run


def classify_cells() -> Iterator[Cell]:
    """Yield five folds of three split seeds; labels of the test fold are never seen."""
    for split in range(3):
        for fold in range(5):
            yield "cora-classify", f"{split}-{fold}", classify_cell(split, fold)


def classify_cell(split: int, fold: int, **settings: Any) -> Callable[[], dict[str, Any]]:
    """Return one fold of node classification on Cora."""

    def run() -> dict[str, Any]:
        graph = cora()
        codes = graph.labels.codes
        train, test = folds(codes, split)[fold]
        fitted = fit(graph, seed=split, task="classify", train_rows=train, **settings)
        said = fitted.result.prediction.codes
        return {
            "accuracy": float((said[test] == codes[test]).mean()),
            "nmi_2_test": nmi(codes[test], fitted.result.groups[1][test]),
            **held(fitted),
        }

    return run


def links_cells() -> Iterator[Cell]:
    """Yield four splits: a fifth of the edges tested, a twentieth set aside, layer-1 cosines."""
    for seed in range(4):
        yield "cora-links", str(seed), links_cell(seed)


def links_cell(seed: int, **settings: Any) -> Callable[[], dict[str, Any]]:
    """Return one split of link prediction on Cora, which also scores the unsupervised groups."""

    def run() -> dict[str, Any]:
        graph = cora()
        edges = graph.edge_list()
        order = np.random.default_rng([seed, 20]).permutation(len(edges))
        test, aside = np.split(edges[order[: len(edges) // 4]], [len(edges) // 5])
        rest = graph.without_edges(np.concatenate([test, aside]))
        fitted = fit(rest, seed=seed, groups=(16, 7), **settings)
        return {**link_scores(graph, test, fitted.result.layer(1), seed), **held(fitted)}

    return run


# One change at a time, from the default preset towards the paper's; then the paper's and back.
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "levels-independent": {"model.nesting": "none"},
    "groups-see-state": {"model.nesting": "none", "model.membership_input": "state"},
    "no-neighbor-evidence": {"model.neighbor_evidence": False},
    "minus-lambda": {"model.group_score": "none"},
    "minus-q": {"loss.group_context": False},
    "minus-reg": {"loss.must_link_weight": 0.0, "loss.cannot_link_weight": 0.0},
    "no-balance": {"loss.balance_weight": 0.0},
    "no-self-training": {"loss.self_training_weight": 0.0},
    "skipgram": {"loss.context": "skipgram"},
    "literal-product": {"model.product": "literal"},
    "literal-gumbel": {"model.assignment": "literal"},
    "no-gumbel": {"model.assignment": "mean"},
    "glorot": {"model.init": "glorot"},
    "no-feature-dropout": {"train.feature_dropout": 0.0},
    "no-edge-dropout": {"train.edge_dropout": 0.0},
    "four-heads": {"model.heads": 4},
    "residual": {"model.residual": True},
    "no-averaging": {"train.average": 0.0},
    # Five walks a node and epoch instead of fifty: ten times cheaper, and still five hundred walks.
    "paper": {"preset": "paper", "loss.walks": 5},
    "paper-balanced": {"preset": "paper", "loss.walks": 5, "loss.balance_weight": 0.5},
}


def preset_cells() -> Iterator[Cell]:
    """Yield every change: four link splits, five folds of nodes."""
    for name, settings in CHANGES.items():
        for seed in range(4):
            yield f"preset-links-{name}", str(seed), links_cell(seed, **settings)
        for fold in range(5):
            yield f"preset-classify-{name}", str(fold), classify_cell(0, fold, **settings)


def fit(graph: Any, *, train_rows: Any = None, **settings: Any) -> Any:
    """Fit with the default preset."""
    from graphham.config.settings import make_config
    from graphham.methods.fitting import fit_graph

    return fit_graph(graph, make_config(settings), train_rows=train_rows)


def held(fitted: Any) -> dict[str, Any]:
    """Return the hierarchy's scores and the cost of a fit."""
    metrics = fitted.summary["metrics"]
    names = ("nesting", "nesting_evidence", "agreement", "used_1", "used_2", "nmi_1", "nmi_2")
    out = {name: metrics[name] for name in names if name in metrics}
    out["used_share"] = min(
        metrics[f"used_{level}"] / metrics[f"groups_{level}"] for level in (1, 2)
    )
    out["seconds"] = fitted.summary["cost"]["seconds"]
    return out


def cora() -> Any:
    """Return the embedded Cora graph."""
    from graphham.datasets import load_dataset

    return load_dataset("cora")


def nmi(truth: Any, groups: Any) -> float:
    """Return normalised mutual information."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(truth, groups))


def folds(codes: Any, split: int) -> list[tuple[Any, Any]]:
    """Return five stratified folds."""
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(5, shuffle=True, random_state=split).split(codes, codes))


def link_scores(graph: Any, test: Any, vectors: Any, seed: int) -> dict[str, float]:
    """Return pooled AUC and MRR of held-out edges against 20 non-neighbours of the source."""
    import torch

    from graphham.sampling.keys import derive_key
    from graphham.sampling.sampler import sample_negatives
    from graphham.training.validation import ranking_auc

    # One draw per test edge: a source that occurs twice gets different negatives.
    key = derive_key(seed, "link negatives")
    sources, place = np.unique(test[:, 0], return_inverse=True)
    most = int(np.bincount(place).max())
    pool = sample_negatives(graph, sources, 20 * most, key).reshape(len(sources), most, 20)
    turn = np.zeros(len(test), dtype=np.int64)
    seen: dict[int, int] = defaultdict(int)
    for i, source in enumerate(place.tolist()):
        turn[i] = seen[source]
        seen[source] += 1
    negative = pool[place, turn]
    true = (vectors[test[:, 0]] * vectors[test[:, 1]]).sum(1)
    false = (vectors[test[:, 0]][:, None] * vectors[negative]).sum(2)
    rank = 1 + (false > true[:, None]).sum(1) + 0.5 * (false == true[:, None]).sum(1)
    auc = ranking_auc(torch.from_numpy(true), torch.from_numpy(false.reshape(-1)))
    return {"auc": auc, "mrr": float((1 / rank).mean())}


def smoothed(graph: Any, steps: int) -> Any:
    """Return centred unit rows of features averaged over ``steps`` hops."""
    n = graph.num_nodes
    walk = graph.adjacency() + sp.eye(n)
    walk = sp.diags(1 / np.asarray(walk.sum(1)).ravel()) @ walk
    x = graph.features
    for _ in range(steps):
        x = walk @ x
    x = x.toarray()
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    return x - x.mean(0)


def plain_kmeans(x: Any, count: int, seed: int) -> Any:
    """Return scikit-learn's k-means clusters."""
    from sklearn.cluster import KMeans

    return KMeans(count, n_init=5, random_state=seed).fit_predict(x)


def louvain_levels(adjacency: Any, fine: int, coarse: int, seed: int) -> tuple[Any, Any]:
    """Return two-level Louvain with the resolution searched for the wanted number of groups."""
    low = _louvain(adjacency, fine, seed, lambda codes: codes)
    member = sp.csr_matrix((np.ones(len(low)), (np.arange(len(low)), low)))
    merged = (member.T @ adjacency @ member).tocsr()
    high = _louvain(merged, coarse, seed, lambda codes: codes[low])
    return low, high[low]


def _louvain(adjacency: Any, count: int, seed: int, spread: Callable[[Any], Any]) -> Any:
    from sknetwork.clustering import Louvain

    best: tuple[int, Any] | None = None
    for resolution in np.geomspace(0.05, 20, 30):
        codes = Louvain(resolution=resolution, random_state=seed).fit_predict(adjacency)
        sizes = np.bincount(spread(codes))
        gap = abs(int((sizes >= 0.01 * sizes.sum()).sum()) - count)
        if best is None or gap < best[0]:
            best = gap, codes
    assert best is not None
    return best[1]


FAMILIES = {
    "planted": planted_cells,
    "embed": embed_cells,
    "seeding": seeding_cells,
    "classify": classify_cells,
    "links": links_cells,
    "presets": preset_cells,
}


def run_cells(families: list[str]) -> None:
    """Run every cell that has no result yet."""
    from rich.progress import Progress, TimeRemainingColumn

    cells = [cell for family in families for cell in FAMILIES[family]()]
    RESULTS.mkdir(parents=True, exist_ok=True)
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn()) as progress:
        task = progress.add_task("cells", total=len(cells))
        for group, name, run in cells:
            path = RESULTS / f"{group}.{name}.json"
            claim = path.with_suffix(".claim")
            if not path.exists():
                try:
                    claim.touch(exist_ok=False)
                except FileExistsError:
                    progress.advance(task)
                    continue
                try:
                    path.write_text(json.dumps(_rounded(run()), indent=1) + "\n")
                finally:
                    claim.unlink(missing_ok=True)
            progress.advance(task)


def report() -> str:
    """Return the stored cells as Markdown: mean and deviation of every number."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(RESULTS.glob("*.json")):
        groups[path.name.split(".")[0]].append(json.loads(path.read_text()))
    lines: list[str] = []
    for group, cells in sorted(groups.items()):
        lines += [f"### {group} ({len(cells)} runs)", "", "| number | mean | sd |", "|---|---|---|"]
        for name in cells[0]:
            values = np.array([cell[name] for cell in cells], dtype=float)
            lines.append(f"| {name} | {values.mean():.4f} | {values.std():.4f} |")
        lines.append("")
    return "\n".join(lines)


def _rounded(cell: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 5) for name, value in cell.items()}


def main() -> None:
    """Run the named families, or print the report."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("families", nargs="*", help="planted embed seeding classify links presets")
    given = parser.parse_args()
    if given.families:
        run_cells(given.families)
    print(report())


if __name__ == "__main__":
    main()
