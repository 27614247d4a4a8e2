"""Studies: which cells a table or figure is made of, as written down in ``experiments/*.toml``."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.planted_sizes import STANDINS
from graphham.config.presets import merge
from graphham.errors import InputError
from graphham.evaluate.cells import LEARNED, Cell
from graphham.evaluate.learned_links import CLUES
from graphham.evaluate.splits import num_folds
from graphham.methods.registry import method_class, method_rows

FOLDER = Path(__file__).parent
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
    "published",  # true: each method with the settings of its paper, where they are not ours
    "quick",  # false: no part of the small version
}


@dataclass(frozen=True)
class Study:
    """A table or figure.

    Args:
        name: Name of its file, such as ``table2``.
        title: What it shows.
        cells: What it is made of, in order.
        page: The page of the documentation that shows it; RESULTS.md does where this is empty.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    page: str = ""


def study_names() -> list[str]:
    """Return the names of all studies."""
    found = sorted(path.stem for path in FOLDER.glob("*.toml"))
    return [name for name in found if name != SETTINGS]


def study_rank(name: str) -> tuple[int, str]:
    """Return what puts tables first, then further studies, then figures."""
    return (0 if name.startswith("table") else 2 if name.startswith("figure") else 1, name)


def study_variants(name: str) -> dict[str, dict[str, Any]]:
    """Return the settings a study varies, by the name that stands for them in its cells."""
    found: dict[str, dict[str, Any]] = _read(FOLDER / f"{name}.toml").get("variants", {})
    return found


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
    whole = _read(FOLDER / f"{name}.toml")
    known = _read(FOLDER / f"{SETTINGS}.toml")
    named = {graph for block in whole["block"] for graph in block["datasets"]}
    for graph in datasets or ():
        if graph not in named:
            raise InputError(_refusal(name, graph, named))
    variants = study_variants(name)
    small = whole.get("quick", {}) if quick else {}
    cells: dict[str, Cell] = {}
    for block in whole["block"]:
        unknown = set(block) - _BLOCK_KEYS
        if unknown:
            raise InputError(f"{name}.toml has unknown entries {', '.join(sorted(unknown))}")
        if block["protocol"] not in small.get("protocols", [block["protocol"]]):
            continue
        if quick and not block.get("quick", True):
            continue
        block = {
            "methods": list(variants) or ["graphham"],
            **block,
            **{key: value for key, value in small.items() if key != "protocols"},
        }
        block = {
            **block,
            **({"datasets": [g for g in datasets if g in block["datasets"]]} if datasets else {}),
            **({"methods": _able(methods, block)} if methods else {}),
            **({"seeds": list(seeds)} if seeds else {}),
            **({"budget": budget} if budget else {}),
        }
        for cell in _expand(block, known, variants):
            cells[cell.key] = cell
    if not cells:
        raise InputError(f"{name} has no cells for what was asked; leave --methods or --quick out")
    return Study(name, whole["title"], tuple(cells.values()), whole.get("page", ""))


def _refusal(study: str, graph: str, named: set[str]) -> str:
    """Say why a study does not measure a graph, and what does."""
    from graphham.datasets.catalog import CATALOG

    has = f"{study} measures {', '.join(sorted(named))}"
    if f"{graph}-planted" in STANDINS:
        return (
            f"{has}; of {graph} there is the loader ('graphham data get {graph}' and 'graphham "
            f"evaluate classify {graph}'), not the files, and a cell takes hours: 'graphham "
            f"reproduce large' measures planted stand-ins under their own names, "
            f"{' and '.join(_standins(graph))}"
        )
    if graph in CATALOG:
        return f"{has}; 'graphham evaluate classify {graph}' measures {graph}"
    return f"{has}, no graph {graph!r}; other graphs are measured by 'graphham evaluate'"


def _standins(graph: str) -> list[str]:
    """Return the stand-ins of a graph that are measured, the smallest first."""
    blocks = _read(FOLDER / "large.toml")["block"]
    names = {name for block in blocks for name in block["datasets"]}
    mine = [name for name in names if name.partition("/")[0] == f"{graph}-planted"]
    return sorted(mine, key=lambda name: -int(name.partition("/")[2] or 1))


def settings_for(known: dict[str, Any], kind: str, method: str, graph: str) -> dict[str, Any]:
    """Return the settings written down for a method, those for one graph on top."""
    found: dict[str, Any] = {}
    entry = known.get(kind, {}).get(method, {})
    for part in ("any", graph):
        found = merge(found, entry.get(part, {}))
    return found


def _expand(
    block: dict[str, Any], known: dict[str, Any], variants: dict[str, dict[str, Any]]
) -> list[Cell]:
    """Return the cells of one block: graphs x methods x grid x seeds x folds."""
    kind, protocol = block["kind"], block["protocol"]
    folds = int(block.get("folds", 5))
    is_split = kind in ("classify", "links")
    count = num_folds(protocol, folds) if is_split else int(block.get("folds", 1))
    chosen = [f for f in block.get("only_folds", range(count)) if f < count]
    grid = block.get("grid", {})
    points = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ] or [{}]
    methods = block["methods"]
    # Fold by fold, all methods: what is finished can be compared at any time.
    order = itertools.product(block["datasets"], block.get("seeds", [0]), chosen, methods, points)
    cells = []
    for graph, seed, fold, method, point in order:
        settings = settings_for(known, kind, method, graph)
        if block.get("published"):
            settings = merge(settings, method_class(method).published)
        settings = merge(settings, variants.get(method, {}))
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
    """Return the methods asked for that can do what a block measures.

    Settings of a block are those of the methods it names, and mean nothing to others.
    """
    is_own = block.get("settings") or block.get("published")
    if block["kind"] not in ("classify", "links") or is_own:
        return [name for name in methods if name in block["methods"]]
    able = {name for name, _, tasks in method_rows() if block["kind"] in tasks}
    if block["protocol"].endswith(LEARNED):
        able = (able & set(block["methods"])) | {CLUES}  # the row without a method
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
