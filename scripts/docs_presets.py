"""Write docs/presets_table.md: how the presets differ, and what each difference is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from docs_results import ROOT, Metrics, earlier_lines, read_metrics, table, values
from docs_settings import flatten, show
from graphham.config.settings import make_config

PATH = ROOT / "docs" / "presets_table.md"
# What a change is held against, where that is not the default preset.
AGAINST = {"paper-balanced": "paper"}
# Two-sided 5% point of Student's t with n - 1 degrees of freedom.
T_POINT = {4: 3.182, 5: 2.776}
COLUMNS = [
    ("AUC", "links", "auc"),
    ("MRR", "links", "mrr"),
    ("NMI level 2", "links", "nmi_2"),
    ("groups in use", "links", "used_share"),
    ("accuracy", "classify", "accuracy"),
    ("NMI level 2, test", "classify", "nmi_2_test"),
    ("groups in use", "classify", "used_share"),
]


def build() -> str:
    """Return the file that docs/presets.md includes."""
    from experiments.studies import study_variants

    changes = study_variants("presets")
    return "\n".join(
        [
            "<!-- written by scripts/docs_presets.py; do not edit -->",
            "",
            "### Settings that differ",
            "",
            *differences(changes),
            "",
            "### Measured on Cora",
            "",
            *earlier_lines("presets"),
            *measured(changes),
            "",
        ]
    )


def differences(changes: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table of settings whose value depends on the preset."""
    flat = {
        (preset, task): flatten(make_config({"preset": preset, "task": task}))
        for preset in ("default", "paper")
        for task in ("embed", "classify")
    }
    rows = []
    for name in flat["default", "embed"]:
        if name in ("preset", "task"):
            continue
        held = {start: show(found[name]) for start, found in flat.items()}
        ours = (held["default", "embed"], held["default", "classify"])
        paper = held["paper", "embed"]
        if set(ours) == {paper}:
            continue
        alone = [
            f"`{change}`"
            for change, settings in changes.items()
            if "preset" not in settings and settings.get(name) == flat["paper", "embed"][name]
        ]
        shown = ours[0] if ours[0] == ours[1] else f"{ours[0]}, classify {ours[1]}"
        rows.append([f"`{name}`", shown, paper, ", ".join(alone) or "only within `paper`"])
    return table(["setting", "default", "paper", "measured as"], rows)


def measured(changes: dict[str, dict[str, Any]]) -> list[str]:
    """Return one table per task of what each change does."""
    held = {
        (task, name): read_metrics("presets", "cora", task, name)
        for name in changes
        for task in ("links", "classify")
    }
    lines: list[str] = []
    titles = {
        "links": "Unsupervised, a quarter of the edges hidden, groups 16 and 7, four splits:",
        "classify": "Five folds, labels of the test fold hidden, groups 17 and 7:",
    }
    for task, title in titles.items():
        wanted = [(label, key) for label, of, key in COLUMNS if of == task]
        rows = []
        for name, settings in changes.items():
            cells, base = held[task, name], held[task, AGAINST.get(name, "default")]
            if cells is None or base is None:
                continue
            against = None if name == "default" else base
            set_to = ", ".join(f"`{k}={_plain(v)}`" for k, v in settings.items()) or "none"
            shown = [difference(cells, against, key) for _, key in wanted]
            rows.append([name, set_to, *shown])
        lines += [title, ""]
        if rows:
            lines += [*table(["change", "settings", *(label for label, _ in wanted)], rows), ""]
        missing = [name for name in changes if held[task, name] is None]
        if missing:
            lines += [f"Not measured completely yet: {', '.join(missing)}.", ""]
    return lines[:-1]


def difference(cells: list[Metrics], base: list[Metrics] | None, name: str) -> str:
    """Return the mean and its paired difference; bold where the t-test finds it below 5%."""
    mean = values(cells, name).mean()
    if base is None:
        return f"{mean:.3f}"
    gap = values(cells, name) - values(base, name)
    text = f"{mean:.3f} ({gap.mean():+.3f})"
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    is_clear = abs(gap.mean()) > T_POINT[len(gap)] * error and abs(gap.mean()) >= 5e-4
    return f"**{text}**" if is_clear else text


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def outputs() -> dict[Path, str]:
    """Return what this script writes."""
    return {PATH: build()}


if __name__ == "__main__":
    PATH.write_text(build(), "utf-8")
