"""The verdict on the groups: counted from folds, not said."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.verdict import verdict_section


def cells(method: str, scores: list[float], graph: str = "cora") -> dict[str, Any]:
    found = {}
    for seed, score in enumerate(scores):
        cell = {
            "kind": "classify",
            "protocol": "few5",
            "graph": graph,
            "method": method,
            "seed": seed,
            "fold": 0,
        }
        metrics = {"accuracy": score}
        found[f"{graph}/{method}/{seed}"] = {"cell": cell, "status": "done", "metrics": metrics}
    return found


def test_a_part_helps_for_sure_only_where_it_does() -> None:
    noise = np.random.default_rng(0).normal(0, 0.002, (4, 10))
    full = (0.8 + noise[0]).tolist()
    records = (
        cells("graphham", full)
        | cells("graphham-no-lambda", (0.7 + noise[1]).tolist())  # clearly worse without
        | cells("graphham-no-reg", (np.array(full) + noise[2] * 0.1).tolist())  # no difference
        | cells("gat", (0.9 + noise[3]).tolist())  # clearly better
    )
    text = verdict_section(records)
    assert "Group attention: helps for sure in 1 of 1 cases and harms for sure in 0" in text
    assert "The constraints: helps for sure in 0 of 1 cases and harms for sure in 0" in text
    assert "Instead of GAT: helps for sure in 0 of 1 cases and harms for sure in 1" in text
    assert "Context by group" not in text  # never measured
    assert "mean gain −0.100" in text
    row = next(line for line in text.splitlines() if line.startswith("| cora"))
    assert "+0.1" in row
    assert row.count("\\*\\*") == 2
    # Nine folds are told and not tested.
    few = {key: r for key, r in records.items() if not key.endswith("9")}
    assert "helps for sure in 1" not in verdict_section(few)


def test_there_is_no_verdict_without_an_ablation() -> None:
    assert verdict_section(cells("graphham", [0.8, 0.9])) == ""
    assert verdict_section({}) == ""
