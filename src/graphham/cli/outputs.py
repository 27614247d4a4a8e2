"""``graphham embed`` and ``graphham export``: carry a fitted run to new nodes and other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphham.cli.options import (
    DirectedOption,
    FeaturesOption,
    GraphArgument,
    GraphOptions,
    IdOption,
    IsolatedOption,
    LabelsOption,
    SourceOption,
    TargetOption,
    WeightOption,
    open_graph,
    refuse_existing,
)
from graphham.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.results.result import FitResult

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A finished run folder: the --out of an earlier fit.")
]
_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".txt": "word2vec",
    ".vec": "word2vec",
    ".graphml": "graphml",
    ".npz": "pyg",
}
_ADVICE = "give another --out or remove it first"


def embed(
    run: RunArgument,
    graph: GraphArgument,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Table to write: .parquet or .csv.")
    ],
    features: FeaturesOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
    with_map: Annotated[
        bool,
        typer.Option("--map", help="Add map_x and map_y: each node's place on the run's map."),
    ] = False,
) -> None:
    """Give vectors and memberships to the nodes of any graph, without refitting.

    The nodes need not have been seen in training; they need the same features. Runs of other
    methods give vectors only, and where a method cannot place new nodes it says so.

    Example:
      graphham embed runs/cora new_edges.csv --features new_nodes.parquet --out new.parquet
    """
    path = Path(out)
    form = _FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if form not in ("parquet", "csv"):
        raise InputError(f"--out {out} ends in neither .parquet nor .csv; name the file so")
    refuse_existing(path, _ADVICE)

    from graphham.cli.fit import read_and_report
    from graphham.cli.other_methods import holds_other_method
    from graphham.results.run_folder import Run
    from graphham.system.atomic import creating
    from graphham.system.console import Screen

    screen = Screen()
    options = GraphOptions(features, None, id_column, source, target, weight, directed, isolated)
    if holds_other_method(run):
        from graphham.cli.other_methods import embed_nodes

        table = embed_nodes(screen, run, graph, options, is_flat=form == "csv", with_map=with_map)
        with creating(path) as temporary:
            _write(table, temporary, form)
        screen.say("Wrote", f"{path}: vectors of {table.num_rows:,} nodes")
        return
    opened = Run.open(run)
    nodes = read_and_report(screen, graph, options)

    from graphham.results.encoder import embed_graph

    found = embed_graph(opened, nodes)
    table = embedding_table(found, is_flat=form == "csv")
    if with_map:
        import pyarrow as pa

        from graphham.results.projection import place_on_map

        places = place_on_map(opened, found.embedding)
        for column, name in enumerate(("map_x", "map_y")):
            table = table.append_column(name, pa.array(places[:, column].copy()))
    with creating(path) as temporary:
        _write(table, temporary, form)
    screen.say("Wrote", f"{path}: vectors and memberships of {found.num_nodes:,} nodes")


def embedding_table(found: FitResult, is_flat: bool) -> pa.Table:
    """Lay out ids, vectors, groups, memberships and concentration, one row per node.

    Args:
        found: What the model says about the nodes.
        is_flat: One number per column, as CSV needs it, instead of lists.
    """
    import pyarrow as pa

    from graphham.results.result import labels_to_arrow, rows_to_lists

    columns: dict[str, Any] = {"id": found.ids.to_arrow()}

    def add(name: str, matrix: Any) -> None:
        if is_flat:
            columns.update({f"{name}_{i}": pa.array(c) for i, c in enumerate(matrix.T.copy())})
        else:
            columns[name] = rows_to_lists(matrix)

    add("dim" if is_flat else "embedding", found.embedding)
    for level, (codes, member) in enumerate(zip(found.groups, found.memberships, strict=True), 1):
        columns[f"group_{level}"] = pa.array(codes)
        add(f"membership_{level}", member)
    columns["concentration"] = pa.array(found.concentration)
    if found.prediction is not None:
        values = labels_to_arrow(found.prediction)
        if is_flat and found.prediction.is_multi:
            values = pa.array(
                [None if v is None else ";".join(map(str, v)) for v in values.to_pylist()],
                pa.string(),
            )
        columns["prediction"] = values
    if found.confidence is not None:
        columns["confidence"] = pa.array(found.confidence)
    return pa.table(columns)


def _write(table: pa.Table, path: Path, form: str) -> None:
    if form == "csv":
        import pyarrow.csv as csv

        csv.write_csv(table, path)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, path, compression="zstd")


def export(
    run: RunArgument,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="File to write; it must not exist.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="parquet|csv|word2vec|graphml|pyg",
            help="Taken from the file's name if not given (.txt and .vec: word2vec, .npz: pyg).",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="GRAPH",
            help="The graph, for graphml and pyg, where the run does not hold it.",
        ),
    ] = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
) -> None:
    """Write a run in the format of another tool.

    Examples:
      graphham export runs/cora --format word2vec --out cora.txt
      graphham export runs/cora --format graphml --out cora.graphml
    """
    path = Path(out)
    chosen = form or _FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if chosen is None:
        raise InputError(f"the name {out} does not tell the format; give --format")
    refuse_existing(path, _ADVICE)

    from graphham.results.export import export_run
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

    screen = Screen()
    opened = Run.open(run)
    nodes = None
    if graph is not None:
        options = GraphOptions(
            features, labels, id_column, source, target, weight, directed, isolated
        )
        nodes = open_graph(graph, options)
    written = export_run(opened, path, chosen, nodes)
    screen.say("Wrote", f"{written.path} ({written.format})")
    for note in written.notes:
        screen.remark(note)
