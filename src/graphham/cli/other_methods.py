"""``graphham fit --method`` and ``graphham embed`` for every method that is not GraphHAM."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.cli.options import GraphOptions
    from graphham.graph.graph import Graph
    from graphham.methods.base import Method
    from graphham.system.console import Screen

_DEFAULT = "graphham"


def asked_method(method: str | None, config: str | None) -> str:
    """Return the method to fit: the one named, the one of the config, or GraphHAM.

    Raises:
        InputError: There is no such method, or it makes no vectors of its own, or the config
            belongs to another one.
    """
    kept = None
    if config is not None:
        from graphham.results.run_folder import read_config

        # Whoever reads the settings themselves says what is wrong with the file.
        with contextlib.suppress(InputError):
            kept = read_config(Path(config)).get("method")
    if method is not None and kept is not None and method != kept:
        raise InputError(
            f"{config} holds settings of the method {kept}, not of {method}; leave one of them out"
        )
    name = method or kept or _DEFAULT
    from graphham.methods.registry import check_method_name, method_rows

    check_method_name(name)
    tasks = {found: tasks for found, _, tasks in method_rows()}[name]
    if tasks == {"links"}:
        raise InputError(
            f"the method {name} learns nothing and only scores pairs of nodes, so there is no run "
            f"to write; measure it with 'graphham evaluate links GRAPH --methods {name}'"
        )
    return str(name)


def preset_of(name: str, preset: str | None) -> tuple[str | None, dict[str, Any]]:
    """Return the preset of a form of GraphHAM and the settings that make it what it is."""
    if name == _DEFAULT:
        return preset, {}
    from graphham.methods.registry import method_class

    form: Any = method_class(name)
    if preset is not None and preset != form.preset:
        raise InputError(f"{name} has the preset {form.preset}, not {preset}; leave one out")
    return form.preset, dict(form.fixed)


def fit_other(
    name: str,
    source: str,
    options: GraphOptions,
    *,
    out: str | None,
    task: str | None,
    unused: Mapping[str, Any],
    config: str | None,
    settings: Mapping[str, Any],
    overwrite: bool,
    quiet: bool,
) -> None:
    """Fit a method and write its run folder.

    Args:
        name: The method.
        source: The graph as the user named it.
        options: How to read it.
        out: Folder to write.
        task: ``embed`` or ``classify``.
        unused: Options that only GraphHAM has, by flag; refused where given.
        config: TOML file with settings.
        settings: Settings that win over it.
        overwrite: Replace a run of that name once the new one is finished.
        quiet: Print remarks and errors only.
    """
    from graphham.methods.registry import make_method, method_rows

    for flag, value in unused.items():
        if value is not None:
            raise InputError(f"{flag} is an option of GraphHAM; the method {name} does without it")
    method = make_method(name, **{**_read_settings(config), **settings})
    tasks = {found: tasks for found, _, tasks in method_rows()}[name]
    task = task or ("embed" if "links" in tasks else "classify")
    if task not in ("embed", "classify"):
        raise InputError(f"there is no task {task!r}; choose embed or classify")
    if out is not None:
        _check_place(Path(out), overwrite)  # refused before the graph is read: that takes a while

    from graphham.cli.fit import read_and_report
    from graphham.system.console import Screen, TrainingProgress, clock

    screen = Screen(quiet)
    graph = read_and_report(screen, source, options)
    place = Path(out) if out is not None else Path("runs") / f"{graph.name or 'graph'}-{name}"
    _check_place(place, overwrite)
    began = time.monotonic()
    with TrainingProgress(screen) as progress:
        method.fit(graph, task=task, listener=progress)

    from graphham.methods.method_folder import save_method

    save_method(method, place, _about(graph, task), overwrite)
    for lines in _found(method):
        screen.say(*lines)
    files = sorted(p.name for p in place.iterdir())
    screen.say("Wrote", [f"{place} in {clock(time.monotonic() - began)}", "  ".join(files)])
    loads = (
        f"python: from graphham.methods.registry import load_method; load_method({str(place)!r})"
    )
    screen.say("Next", loads)


def holds_other_method(run: str) -> bool:
    """Tell whether a run folder is that of another method than GraphHAM."""
    path = Path(run) / "summary.json"
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False  # whoever opens the run says what is wrong with it
    return isinstance(found, dict) and found.get("format") == "graphham-method"


def embed_nodes(
    screen: Screen, run: str, source: str, options: GraphOptions, is_flat: bool, with_map: bool
) -> pa.Table:
    """Return ids and vectors of any graph's nodes, by a method that can place new ones.

    Args:
        screen: Where to say what was read.
        run: The run folder.
        source: The graph as the user named it.
        options: How to read it.
        is_flat: One number per column instead of lists.
        with_map: Whether places on a map were asked for, which other methods do not have.
    """
    import pyarrow as pa

    from graphham.cli.fit import read_and_report
    from graphham.methods.method_folder import load_method
    from graphham.results.result import rows_to_lists

    method = load_method(run)
    if with_map:
        raise InputError(f"a run of the method {method.name} has no map; leave --map out")
    graph = read_and_report(screen, source, options)
    vectors = method.transform(graph)
    columns: dict[str, Any] = {"id": graph.ids.to_arrow()}
    if is_flat:
        columns |= {f"dim_{i}": pa.array(c) for i, c in enumerate(vectors.T.copy())}
    else:
        columns["embedding"] = rows_to_lists(vectors)
    return pa.table(columns)


def _read_settings(config: str | None) -> dict[str, Any]:
    from graphham.results.run_folder import read_config

    found = read_config(Path(config)) if config is not None else {}
    return {name: value for name, value in found.items() if name not in ("method", "graph")}


def _check_place(place: Path, overwrite: bool) -> None:
    from graphham.methods.method_folder import check_replaceable

    if overwrite:
        check_replaceable(place)
    elif place.exists() or place.is_symlink():
        raise InputError(
            f"the run folder {place} exists already; choose another --out or give --overwrite"
        )


def _about(graph: Graph, task: str) -> dict[str, Any]:
    size = {"name": graph.name, "nodes": graph.num_nodes, "edges": graph.num_edges}
    return {"status": "complete", "task": task, "graph": size}


def _found(method: Method) -> list[tuple[str, list[str]]]:
    """Return labelled lines about what a fit found."""
    counts = [int(codes.max()) + 1 for codes in method.levels_ or []]
    said = [("Groups", [f"{', '.join(map(str, counts))} from fine to coarse"])] if counts else []
    if method.validation_ is not None:
        said.append(("Classes", [f"right on {method.validation_:.1%} of the validation nodes"]))
    return said
