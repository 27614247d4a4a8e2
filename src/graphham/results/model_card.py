"""The model card of a run, ``README.md``: what it is, on what, how good, its limits, its use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CARD_FILE = "README.md"
_FILES = {
    "config.toml": "every setting; `graphham fit GRAPH --config config.toml` repeats the run",
    "embedding.npy": "one vector per node, float32; rows follow `nodes.parquet`",
    "nodes.parquet": "one row per node: id, groups, memberships, and what else is known",
    "groups.parquet": "one row per group: name, size, parent, typical features and nodes",
    "hierarchy.json": "the tree of groups and how many nodes flow along it",
    "model.safetensors": "what was learned; no code runs when it is loaded",
    "metrics.jsonl": "the training log, one line per epoch",
    "summary.json": "this card's numbers and the checksum of every file",
}
_LOAD = """```python
import graphham as gh

model = gh.load("PATH")      # this folder, or it as a .zip
model.embedding_             # vectors; rows follow model.ids_
{groups}```
"""
_LOAD_GROUPS = "model.groups_table()         # the groups, with names\n"


def model_card(
    summary: Mapping[str, Any], config: Mapping[str, Any], names: Iterable[str], examples: list[str]
) -> str:
    """Return the model card of a run as Markdown.

    Args:
        summary: What ``summary.json`` will say.
        config: The settings of the run.
        names: The files of the run.
        examples: Names of some groups, coarse ones first.
    """
    graph = summary.get("graph", {})
    title = _line(graph.get("name") or "graph")
    about = summary.get("method")
    method = str(about.get("name", "graphham")) if isinstance(about, Mapping) else "graphham"
    parts = [
        f"# {title}: a run of {_line(method)}\n",
        f"Written by graphham {summary.get('graphham_version')} "
        f"({summary.get('status')}); task {config.get('task', 'embed')}, seed "
        f"{config.get('seed', 0)}.\n",
        "## What it was fitted on\n",
        _graph_text(graph),
        "## What it found\n",
        *_found(summary, examples),
        "## Limits\n",
        *_limits(summary, config, method),
        "## How to load it\n",
        _LOAD.format(groups=_LOAD_GROUPS if summary.get("hierarchy") else ""),
        "`graphham info PATH` shows it, `graphham report PATH` writes a page about it, and "
        "`graphham doctor PATH` compares every file with its checksum.\n",
        "## Files\n",
        "| file | what is in it |\n|---|---|",
        *(f"| `{n}` | {_FILES.get(n, 'made by this method')} |" for n in sorted(names)),
    ]
    return "\n".join(parts) + "\n"


def _graph_text(graph: Mapping[str, Any]) -> str:
    kind = "directed" if graph.get("directed") else "undirected"
    weighted = "weighted" if graph.get("weighted") else "unweighted"
    features, classes = graph.get("features") or 0, graph.get("classes") or 0
    return (
        f"{_line(graph.get('name') or 'A graph')}: {graph.get('nodes', 0):,} nodes, "
        f"{graph.get('edges', 0):,} edges ({kind}, {weighted}), "
        f"{f'{features:,} features' if features else 'no features'}, "
        f"{f'{classes:,} classes of labels' if classes else 'no labels'}. "
        f"Fingerprint `{_line(graph.get('fingerprint') or '?')}`.\n"
    )


def _found(summary: Mapping[str, Any], examples: list[str]) -> list[str]:
    tree = summary.get("hierarchy") or {}
    lines: list[str] = []
    levels = int(tree.get("levels") or 0)
    for level in range(levels, 0, -1):
        line = (
            f"- Level {level}{' (fine)' if level == 1 else ''}: {tree[f'used_{level}']} groups in "
            f"use (at least one node is shown in them), the largest with "
            f"{tree[f'largest_share_{level}']:.0%} of the nodes"
        )
        if tree.get(f"nmi_{level}") is not None:
            line += f"; NMI with the labels {tree[f'nmi_{level}']:.2f}"
        lines.append(f"{line}.")
    if levels > 1:
        from graphham.system.console import nesting_of

        score = nesting_of(tree)
        alone = "- The coarsest level is one group of everything."
        if score is not None:
            alone = f"- Nesting of the levels: {score:.3f} (1 is a perfect tree)."
        lines.append(alone)
    if examples:
        lines.append(f"- Groups such as {'; '.join(_line(name) for name in examples)}.")
    if not levels:
        lines.append("- Vectors only: the method finds no groups.")
    training, cost = summary.get("training") or {}, summary.get("cost") or {}
    if training.get("validation") is not None:
        lines.append(f"- Score on nodes or links held out: {training['validation']:.3f}.")
    if cost.get("seconds") is not None:
        memory = (cost.get("peak_memory_bytes") or 0) / 2**30
        lines.append(f"- Cost: {cost['seconds']:,.0f} s, {memory:.2f} GiB at most.")
    structure = summary.get("structure") or {}
    if structure.get("found") is not None:
        said = _line(structure["sentence"])
        lines.append(f"- {said[:1].upper()}{said[1:]}.")
    return [*lines[:-1], f"{lines[-1]}\n"]


def _limits(summary: Mapping[str, Any], config: Mapping[str, Any], method: str) -> list[str]:
    graph = summary.get("graph", {})
    lines = ["- Group numbers mean nothing by themselves, and another seed may number anew."]
    if not graph.get("features"):
        lines.append("- The graph has no features, so groups are described by links alone.")
    if config.get("task") != "classify" and graph.get("classes"):
        lines.append("- Labels were not trained on; where they appear, they only describe.")
    if summary.get("status") == "interrupted":
        lines.append("- Training was stopped early; this is the best state so far.")
    structure = summary.get("structure") or {}
    if structure.get("found") is False:
        lines.append("- **The graph looks like chance: its groups are likely to be invented.**")
    if method.startswith("graphham"):
        lines.append("- New nodes need links to known ones, and the features the fit had.")
    lines += [f"- {_line(note)}" for note in summary.get("notes") or []]
    return [*lines[:-1], f"{lines[-1]}\n"]


def _line(value: Any) -> str:
    """Return user text on one line that cannot become markup of its own."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)[:400]).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)[:600]
