"""Studies: which cells a table or figure is made of, as written down in ``experiments/*.toml``."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphham.errors import InputError
from graphham.evaluate.cells import Cell
from graphham.evaluate.splits import num_folds
from graphham.evaluate.tuning import merge

SETTINGS = "settings"
_BLOCK_KEYS = {
    "kind",
    "protocol",
    "datasets",
    "methods",
    "seeds",
    "folds",
    "only_folds",
    "budget",
    "grid",
    "settings",
}


@dataclass(frozen=True)
class Study:
    """A table or figure.

    Args:
        name: Name of its file, such as ``table2``.
        title: What it shows.
        cells: What it is made of, in order.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]


def experiments_folder() -> Path:
    """Return the folder of the studies: beside the source, or inside the installed package."""
    home = Path(__file__).resolve().parents[1]
    for folder in (home / "experiments", home.parents[1] / "experiments"):
        if (folder / "table2.toml").is_file():
            return folder
    raise InputError("the experiments folder is missing; reinstall graphham or clone its source")


def study_names() -> list[str]:
    """Return the names of all studies."""
    found = sorted(path.stem for path in experiments_folder().glob("*.toml"))
    return [name for name in found if name != SETTINGS]


def load_study(
    name: str,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    budget: int | None = None,
    quick: bool = False,
) -> Study:
    """Read a study and list its cells.

    Args:
        name: One of :func:`study_names`.
        datasets: Only these of the study's graphs.
        methods: Only these methods, also others than the study names, as far as they can do what
            is measured.
        seeds: These seeds instead of the study's own.
        budget: Settings to choose among instead of the study's own number.
        quick: The study's small version, which takes minutes.
    """
    if name not in study_names():
        raise InputError(f"there is no study {name!r}; choose {', '.join(study_names())}, all")
    whole = _read(experiments_folder() / f"{name}.toml")
    known = _read(experiments_folder() / f"{SETTINGS}.toml")
    named = {graph for block in whole["block"] for graph in block["datasets"]}
    for graph in datasets or ():
        if graph not in named:
            raise InputError(
                f"{name} has no graph {graph!r}; it has {', '.join(sorted(named))}; other graphs "
                f"are measured by 'graphham evaluate'"
            )
    cells: dict[str, Cell] = {}
    for block in whole["block"]:
        unknown = set(block) - _BLOCK_KEYS
        if unknown:
            raise InputError(f"{name}.toml has unknown entries {', '.join(sorted(unknown))}")
        if quick:
            small = whole.get("quick", {})
            if block.get("protocol") not in small.get("protocols", [block.get("protocol")]):
                continue
            block = {**block, **{k: v for k, v in small.items() if k != "protocols"}}
        block = {
            **block,
            **({"datasets": [g for g in datasets if g in block["datasets"]]} if datasets else {}),
            **({"methods": _able(methods, block)} if methods and "methods" in block else {}),
            **({"seeds": list(seeds)} if seeds else {}),
            **({"budget": budget} if budget else {}),
        }
        for cell in _expand(block, known):
            cells[cell.key] = cell
    if not cells:
        raise InputError(f"{name} has no cells for what was asked; leave --methods or --quick out")
    return Study(name, whole["title"], tuple(cells.values()))


def settings_for(known: dict[str, Any], kind: str, method: str, graph: str) -> dict[str, Any]:
    """Return the settings written down for a method, those for one graph on top."""
    found: dict[str, Any] = {}
    entry = known.get(kind, {}).get(method, {})
    for part in ("any", graph):
        found = merge(found, entry.get(part, {}))
    return found


def _expand(block: dict[str, Any], known: dict[str, Any]) -> list[Cell]:
    """Return the cells of one block: graphs x methods x grid x seeds x folds."""
    kind, protocol = block["kind"], block["protocol"]
    folds = int(block.get("folds", 5))
    count = num_folds(protocol, folds) if kind in ("classify", "links") else 1
    chosen = [f for f in block.get("only_folds", range(count)) if f < count]
    grid = block.get("grid", {})
    points = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ] or [{}]
    methods = block.get("methods", ["graphham"])
    # Fold by fold, all methods: what is finished can be compared at any time.
    order = itertools.product(block["datasets"], block.get("seeds", [0]), chosen, methods, points)
    cells = []
    for graph, seed, fold, method, point in order:
        settings = settings_for(known, kind, method, graph)
        settings = merge(settings, block.get("settings", {}))
        if point:
            settings = merge(settings, _grid_settings(point))
        cells.append(
            Cell(
                kind=kind,
                graph=graph,
                protocol=protocol,
                method=method,
                seed=int(seed),
                fold=int(fold),
                folds=folds,
                budget=int(block.get("budget", 1)),
                settings=settings,
            )
        )
    return cells


def _able(methods: Sequence[str], block: dict[str, Any]) -> list[str]:
    """Return the methods asked for that can do what a block measures."""
    if block["kind"] not in ("classify", "links"):
        return [name for name in methods if name in block["methods"]]
    from graphham.methods.registry import method_rows

    able = {name for name, _, tasks in method_rows() if block["kind"] in tasks}
    return [name for name in methods if name in able]


def _grid_settings(point: dict[str, Any]) -> dict[str, Any]:
    """Turn ``groups_1``, ``groups_2`` and dotted names into what the GraphHAM method takes."""
    groups = [point[name] for name in ("groups_1", "groups_2") if name in point]
    dotted = {name: value for name, value in point.items() if not name.startswith("groups_")}
    return {**({"groups": groups} if groups else {}), **({"settings": dotted} if dotted else {})}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from error
