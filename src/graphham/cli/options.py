"""Options that several commands share, and the one way to open the graph they name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

_PANEL = "Reading the graph"
# Number of this process and of all, as torchrun and ``fit --processes`` say.
_JOB = (("RANK", "0"), ("WORLD_SIZE", "1"))

GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A dataset name (graphham data list), an edge file (CSV, TSV, text, .gz, Parquet, "
        "npz, GraphML) or a store. A dataset name wins over a file called the same; ./cora is "
        "the file.",
    ),
]
FeaturesOption = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="Table of an id and numeric columns, or an npz; replaces what the graph has. Text "
        "columns, and the label column of the same file, are left out.",
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE:COLUMN",
        rich_help_panel=_PANEL,
        help="Table with the labels and the column that holds them; blank is unknown.",
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        rich_help_panel=_PANEL,
        help="Id column of the feature and label tables; the first one if not given.",
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="COLUMN",
        rich_help_panel=_PANEL,
        help="Column of an edge's first end; the first column if not given.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        rich_help_panel=_PANEL,
        help="Column of an edge's second end; the second column if not given.",
    ),
]
WeightOption = Annotated[
    str | None,
    typer.Option(
        "--weight", metavar="COLUMN", rich_help_panel=_PANEL, help="Column of the edge weights."
    ),
]
DirectedOption = Annotated[
    bool,
    typer.Option("--directed", rich_help_panel=_PANEL, help="Keep the direction of edges."),
]
IsolatedOption = Annotated[
    bool,
    typer.Option(
        "--isolated",
        rich_help_panel=_PANEL,
        help="Admit nodes that have features or labels but no edge.",
    ),
]


@dataclass(frozen=True)
class GraphOptions:
    """How the user wants a graph to be read; see :func:`graphham.io.read_graph`."""

    features: str | None = None
    labels: str | None = None
    id_column: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    directed: bool = False
    isolated: bool = False

    def first_edge_option(self) -> str | None:
        """Return the first option given that only an edge file can follow."""
        given = {
            "--source": self.source,
            "--target": self.target,
            "--weight": self.weight,
            "--directed": self.directed,
        }
        return next((name for name, value in given.items() if value), None)


def open_graph(source: str, options: GraphOptions, parts: bool = False) -> Graph:
    """Open a dataset, a store or an edge file, and attach the features and labels given.

    Args:
        source: What the user named.
        options: How to read it.
        parts: Whether this process's part of a split store will do.
    """
    from graphham.datasets import CATALOG, load_dataset

    refused = options.first_edge_option()
    if source in CATALOG:
        _refuse(refused, f"{source!r} is a dataset")
        return attach_tables(load_dataset(source), options)
    path = Path(source).expanduser()
    if not path.exists() and not any(sign in source for sign in "/\\.:~"):
        try:
            load_dataset(source)  # not a known name: it raises, with the nearest known one
        except InputError as error:
            raise InputError(f"there is no file {source!r} and {error}") from None
    if (path / "hierarchy.json").is_file():
        raise InputError(f"{path} is a run folder, not a graph; give what the run was fitted on")
    from graphham.graph.store import MANIFEST, holds_parts, open_store

    if holds_parts(path):
        from graphham.graph.store_parts import open_part

        _refuse(refused, f"{path} is a split store")
        if not parts:
            raise InputError(f"{path} is a split store; only a fit of GraphHAM itself reads it")
        if options.features or options.labels:
            raise InputError(
                f"{path} is a split store, which keeps its features and labels; leave --features "
                f"and --labels out, or ingest the graph with them and split it again"
            )
        job = (int(os.environ.get(name, default)) for name, default in _JOB)
        return open_part(path, *job)
    if (path / MANIFEST).is_file():
        _refuse(refused, f"{path} is a store")
        return attach_tables(open_store(path), options)
    from graphham.io import read_graph

    graph = read_graph(
        path,
        source=options.source,
        target=options.target,
        weight=options.weight,
        directed=options.directed,
    )
    return attach_tables(graph, options)


def _refuse(option: str | None, because: str) -> None:
    if option is not None:
        raise InputError(f"{option} only applies to edge files, but {because}; leave it out")


def attach_tables(graph: Graph, options: GraphOptions) -> Graph:
    """Attach the feature and label tables the user gave, if any."""
    if options.features is None and options.labels is None:
        return graph
    from graphham.io import attach_features, attach_labels

    if options.features is not None:
        graph = attach_features(
            graph, options.features, options.id_column, options.isolated, options.labels
        )
    if options.labels is not None:
        graph = attach_labels(graph, options.labels, options.id_column, options.isolated)
    return graph


def refuse_existing(path: Path, advice: str) -> None:
    """Stop before any work when the place to write to is taken."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already; {advice}")


def split_names(text: str) -> list[str]:
    """Return the names in a list separated by commas; each may occur once."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError("give at least one name, separated by commas")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{twice!r} is named twice; name each once")
    return names


def split_seeds(text: str) -> list[int]:
    """Return the seeds in a list separated by commas, each once."""
    try:
        seeds = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(
            f"--seeds takes whole numbers separated by commas, such as 0,1,2, got {text!r}"
        ) from None
    if not seeds or min(seeds) < 0:
        raise InputError(f"--seeds takes whole numbers from 0 on, got {text!r}")
    return list(dict.fromkeys(seeds))
