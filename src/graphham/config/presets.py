"""What the presets set, by task, where it differs from the defaults of ``config.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CLASSIFY: dict[str, Any] = {
    "train": {
        "average": 0.95,
        "anchors": 512,
    },
}
_PAPER: dict[str, Any] = {
    "inputs": {"scaling": "row"},
    "model": {
        "init": "glorot",
        "residual": False,
        "class_activation": "identity",
        "class_steps": 0,
        "class_groups": False,
        "membership_input": "state",
        "affinity": "dot",
        "straight_through": True,
        "group_score": "additive",
    },
    "loss": {
        "context": "skipgram",
        "context_weight": 1.0,
        "teacher_weight": 0.0,
        "doubt_teacher": False,
        "walks": 50,
        "must_link_weight": 1.0,
        "cannot_link_weight": 0.1,
        "violation": "pairs",
        "balance_weight": 0.0,
    },
    "train": {
        "epochs": 100,
        "lr": 0.005,
        "feature_dropout": 0.0,
        "dropout": 0.2,
        "edge_dropout": 0.0,
        "weight_decay": 5e-4,
    },
}


def preset_settings(preset: str, task: str) -> dict[str, Any]:
    """Return what a preset sets for a task, as nested plain values."""
    settings: dict[str, Any] = {"preset": preset, "task": task}
    if preset == "paper":
        return merge(settings, _PAPER)
    return merge(settings, _CLASSIFY) if task == "classify" else settings


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings, those of ``over`` winning."""
    merged = dict(base)
    for name, value in over.items():
        inner = merged.get(name)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[name] = merge(inner, value) if both else value  # type: ignore[arg-type]
    return merged
