"""``graphham demo``: fit the embedded Cora graph and tell what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

DEFAULT_OUT = "runs/cora-demo"
_FAST_EPOCHS = 20
_SHOWN_BOUNDARY = 5


def demo(
    out: Annotated[
        str, typer.Option("--out", metavar="RUN", help="Run folder; an earlier demo is replaced.")
    ] = DEFAULT_OUT,
    is_fast: Annotated[
        bool, typer.Option("--fast", help="A quarter of the training: a first look.")
    ] = False,
) -> None:
    """Fit the citation graph Cora, which comes with the package, and show its groups.

    Example:
      graphham demo
    """
    from graphham.cli.fit import fit_and_report, read_and_report
    from graphham.cli.options import GraphOptions
    from graphham.config.settings import make_config
    from graphham.system.console import Screen

    screen = Screen()
    config = make_config({"train.epochs": _FAST_EPOCHS if is_fast else None})
    place = Path(out)
    screen.plain(
        "Cora: papers on machine learning, the words they use and who cites whom.\n"
        "GraphHAM sees words and citations only; subjects come in afterwards, to name groups;\n"
        "such names are marked [label].\n"
    )
    graph = read_and_report(screen, "cora", GraphOptions())
    replaces = _check_earlier(place, graph)
    from graphham.methods.graphham import GraphHAM
    from graphham.results.run_names import name_run

    model = GraphHAM.from_config(config)
    run = name_run(fit_and_report(screen, model, graph, place, overwrite=replaces), by_labels=True)
    _show(screen, run, graph)
    _write_report(screen, run)


def _check_earlier(place: Path, graph: Graph) -> bool:
    """Return whether something stands at the place; refuse unless an earlier demo made it."""
    from graphham.results.run_folder import read_config, read_summary

    partial = place.with_name(f"{place.name}.partial")
    found = [folder for folder in (place, partial) if folder.exists()]
    for folder in found:
        try:
            config = read_config(folder / "config.toml")
            seen = read_summary(folder)["graph"] if folder == place else None
        except InputError:
            config, seen = {}, None
        expected = {"task": "embed", "preset": "default", "seed": 0}
        is_ours = {name: config.get(name) for name in expected} == expected
        if folder == place:
            is_ours = is_ours and seen is not None and seen["fingerprint"] == graph.fingerprint()
        if not is_ours:
            raise InputError(
                f"{folder} exists and is not an earlier demo, so it is kept; choose another --out"
            )
    return bool(found)


def _show(screen: Screen, run: Run, graph: Graph) -> None:
    """Print the tree, the nodes between groups, one explanation and what to do next."""
    from graphham.results.describe import boundary_table
    from graphham.system.console import tree_lines

    result = run.result()
    screen.plain(
        "\nThe tree: coarse groups, their fine groups, papers, number, most frequent subject"
    )
    screen.say("", tree_lines(run.groups.to_pylist()))
    names = {(g["level"], g["group"]): g["name"] for g in run.groups.to_pylist()}
    screen.plain("\nBetween groups: papers that belong to two almost equally")
    rows = boundary_table(result, _SHOWN_BOUNDARY).to_pylist()
    screen.say("", [_boundary_line(row, names) for row in rows])
    screen.plain("\nWhy is the first of them where it is?")
    screen.say("", _explanation(run, graph, rows[0]["id"]).splitlines())
    screen.plain()
    screen.say(
        "Look at",
        [
            f"{run.path / 'groups.parquet'}: every group with typical words, papers and subject",
            f"{run.path / 'nodes.parquet'}: every paper with its groups and memberships",
            f"{run.path / 'embedding.npy'}: the vectors, rows follow nodes.parquet",
        ],
    )
    screen.say(
        "Next",
        [
            "graphham fit debian --out runs/debian        a map of 63,436 software packages",
            "graphham fit YOUR_EDGES.csv --out runs/mine  your own graph, with your own ids",
            f"python: import graphham as gh; model = gh.load({str(run.path)!r}, 'cora')",
            f"        print(model.explain({rows[0]['id']!r}))",
        ],
    )


def _write_report(screen: Screen, run: Run) -> None:
    """Write the report where the packages for it are installed; say so where they are not."""
    from graphham.report.html import write_report

    try:
        path = write_report(run)
    except InputError as error:
        screen.remark(f"no report: {error}")
        return
    screen.plain()
    screen.say(
        "Report",
        [f"{path}: map, tree and groups on one page", f"graphham explore {run.path}: walk through"],
    )


def _boundary_line(row: dict[str, Any], names: dict[tuple[int, int], str]) -> str:
    first = names[row["level"], row["first_group"]]
    second = names[row["level"], row["second_group"]]
    return (
        f"{row['id']!s:<10} level {row['level']}: {row['first_membership']:.0%} {first}, "
        f"{row['second_membership']:.0%} {second}"
    )


def _explanation(run: Run, graph: Graph, node: Any) -> str:
    from graphham.results.encoder import Encoder, node_attention
    from graphham.results.explain import explain_node

    result, row = run.result(), graph.ids.row(node)
    encoder = Encoder.from_run(run)
    inputs = encoder.inputs_of(graph, graph.ids)
    attention = node_attention(encoder.model, inputs, graph, row)
    reasons = encoder.reasons(graph, inputs, row, result)
    return str(explain_node(result, graph, row, attention, run.groups, 4, reasons))
