"""The verdict on the groups: counted from folds, not said."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.verdict import verdict_section


def cells(
    method: str, scores: list[float], graph: str = "cora", alone: bool = True
) -> dict[str, Any]:
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
        if alone:
            metrics["accuracy_alone"] = score - 0.1
        found[f"{graph}/{method}/{seed}"] = {"cell": cell, "status": "done", "metrics": metrics}
    return found


def test_a_part_helps_for_sure_only_where_it_does() -> None:
    noise = np.random.default_rng(0).normal(0, 0.002, (4, 8))
    full = (0.8 + noise[0]).tolist()
    records = (
        cells("graphham", full)
        | cells("graphham-no-lambda", (0.7 + noise[1]).tolist())  # clearly worse without
        | cells("graphham-no-reg", (np.array(full) + noise[2] * 0.1).tolist())  # no difference
        | cells("gat", (0.9 + noise[3]).tolist(), alone=False)  # clearly better
    )
    text = verdict_section(records)
    whole, _, network = text.partition("### The network by itself")
    assert "Group attention: helps for sure in 1 of 1 cases and harms for sure in 0" in whole
    assert "The constraints: helps for sure in 0 of 1 cases and harms for sure in 0" in whole
    assert "Instead of GAT: helps for sure in 0 of 1 cases and harms for sure in 1" in whole
    assert "Context by group" not in whole  # never measured
    # The network alone is held against what a rival's network has, not against a missing number.
    assert "mean gain −0.199" in network
    row = next(line for line in whole.splitlines() if line.startswith("| cora"))
    assert "+0.1" in row
    assert row.count("\\*\\*") == 2


def test_without_second_opinions_there_is_one_table() -> None:
    records = cells("graphham", [0.8, 0.9, 0.8], alone=False)
    records |= cells("graphham-no-lambda", [0.7, 0.6, 0.65], alone=False)
    text = verdict_section(records)
    assert "opinions" not in text
    assert "###" not in text
    assert "Group attention: helps for sure" in text


def test_there_is_no_verdict_without_an_ablation() -> None:
    assert verdict_section(cells("graphham", [0.8, 0.9])) == ""
    assert verdict_section({}) == ""
