"""Which settings decide how the paper is read, by the entries of ``docs/ambiguities.md``.

A setting belongs to an entry when its other values are other ways to understand the same sentence
or equation. ``tests/contract/test_every_setting.py`` fits each of them with another value.
"""

from __future__ import annotations

READINGS: dict[str, tuple[str, ...]] = {
    "A2": ("loss.context_table", "loss.group_context"),
    "A3": (
        "model.assignment",
        "model.dirichlet",
        "model.straight_through",
        "model.tau",
        "model.tau_end",
    ),
    "A4": (
        "loss.must_link_weight",
        "loss.cannot_link_weight",
        "loss.violation",
        "loss.balance_weight",
    ),
    "A5": ("model.product", "model.self_edge"),
    "A6": ("loss.scope", "loss.walks", "loss.context"),
    "A9": ("train.validation_share",),
    "A10": ("inputs.structural_dim",),
    "A12": ("model.group_score", "model.separate_attention"),
    "A13": (
        "model.membership_input",
        "model.group_links",
        "model.affinity",
        "model.affinity_scale",
        "model.group_init",
        "inputs.scaling",
    ),
    "A14": (
        "groups",
        "model.heads",
        "model.activation",
        "model.init",
        "train.lr",
        "train.table_lr",
    ),
    "A15": ("loss.mix",),
    "A16": ("loss.class_weight",),
    "A17": ("train.validation_edges",),
}


def reading_of(setting: str) -> str:
    """Return the entry a setting belongs to, empty where it is no reading of the paper.

    Args:
        setting: Its dotted name.
    """
    return next((entry for entry, names in READINGS.items() if setting in names), "")
