"""Options that several commands share, and the one way to open the graph they name."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

_ID_HELP = "Id column of the feature and label tables; the first one if not given."
_END_HELP = "Column of an edge's {0} end; the {0} column if not given."
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


def option(panel: str | None, name: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """Return an option of a command, for :data:`~typing.Annotated`.

    Args:
        panel: Head below which the command's help lists it, or ``None``.
        name: Such as ``--out``.
        help: One sentence for the user.
        metavar: What stands for the value in the help; the type's name if not given.
        **more: What else :func:`typer.Option` takes.
    """
    return typer.Option(name, metavar=metavar, rich_help_panel=panel, help=help, **more)


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print remarks and errors only.")]
_reading = functools.partial(option, "Reading the graph")


@dataclass(frozen=True)
class GraphOptions:
    """How the user wants a graph to be read; see :func:`graphham.io.read_graph`."""

    features: Annotated[
        str | None,
        _reading(
            "--features",
            "Table of an id and numeric columns, or an npz; replaces what the graph has. Text "
            "columns, and the label column of the same file, are left out. Named columns only: "
            "FILE:one,two; text among them becomes one column of 0 and 1 per value.",
            "FILE[:COLUMNS]",
        ),
    ] = None
    labels: Annotated[
        str | None,
        _reading(
            "--labels",
            "Table with the labels and the column that holds them; blank is unknown.",
            "FILE:COLUMN",
        ),
    ] = None
    drop: Annotated[
        str | None,
        _reading("--drop", "Columns of the feature table that are no features.", "COLUMNS"),
    ] = None
    id_column: Annotated[str | None, _reading("--id", _ID_HELP, "COLUMN")] = None
    source: Annotated[str | None, _reading("--source", _END_HELP.format("first"), "COLUMN")] = None
    target: Annotated[str | None, _reading("--target", _END_HELP.format("second"), "COLUMN")] = None
    weight: Annotated[str | None, _reading("--weight", "Column of the edge weights.", "COLUMN")] = (
        None
    )
    directed: Annotated[bool, _reading("--directed", "Keep the direction of edges.")] = False
    isolated: Annotated[
        bool, _reading("--isolated", "Admit nodes that have features or labels but no edge.")
    ] = False
    max_unpacked: Annotated[
        float | None,
        _reading(
            "--max-unpacked",
            "Most that a packed file (.gz, .npz) may become; 100 times its size if not given.",
            "GIB",
        ),
    ] = None
    verify: Annotated[
        bool, _reading("--verify", "Compare every file of a store with its checksum first.")
    ] = False

    skip_bad_rows: Annotated[
        bool,
        _reading("--skip-bad-rows", "Leave rows out that cannot be used; count and show them."),
    ] = False
    fill_missing: Annotated[
        str | None,
        _reading(
            "--fill-missing", "Fill features that are missing, instead of refusing.", "mean|zero"
        ),
    ] = None

    def as_flags(self) -> str:
        """Return the options as they were given, to be typed again behind another command."""
        words: list[str] = []
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if value is None or value is False:
                continue
            # Inside Annotated the first argument of an option, named default, is its flag.
            words.append(hint.__metadata__[0].default)
            if value is not True:
                words.append(shlex.quote(str(value)))
        return " ".join(words)

    def first_edge_option(self) -> str | None:
        """Return the first option given that only an edge file can follow."""
        given = {
            "--source": self.source,
            "--target": self.target,
            "--weight": self.weight,
            "--directed": self.directed,
        }
        return next((name for name, value in given.items() if value), None)


# The default of a command's ``options``; the decorator below always gives them.
NO_OPTIONS = GraphOptions()


def takes_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that the dataclasses among its parameters list.

    Each field of such a dataclass, annotated like a parameter of a command, becomes an option, and
    stands in the help where the dataclass stands among the parameters. The command gets them as
    one object.

    Args:
        *left_out: Fields that the command does not offer; they keep their defaults.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        bundles: dict[str, list[str]] = {}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            hint = hints[parameter.name]
            if not is_dataclass(hint):
                parameters.append(parameter.replace(annotation=hint))
                continue
            kinds = get_type_hints(hint, include_extras=True)
            offered = [field for field in fields(hint) if field.name not in left_out]
            bundles[parameter.name] = [field.name for field in offered]
            parameters += [
                inspect.Parameter(
                    field.name, parameter.kind, default=field.default, annotation=kinds[field.name]
                )
                for field in offered
            ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            for bundle, names in bundles.items():
                given[bundle] = hints[bundle](**{name: given.pop(name) for name in names})
            command(**given)

        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def open_graph(source: str, options: GraphOptions, parts: bool = False) -> Graph:
    """Open a dataset, a store or an edge file, and attach the features and labels given.

    Args:
        source: What the user named.
        options: How to read it.
        parts: Whether this process's part of a split store will do.
    """
    from graphham.datasets.open_source import as_graph, source_kind

    kind = source_kind(source)
    refused = options.first_edge_option()
    if kind != "file" and refused is not None:
        what = {"dataset": "dataset", "store": "store", "parts": "split store"}[kind]
        raise InputError(f"{refused} only applies to edge files, but {source} is a {what}")
    if kind == "parts" and not options.verify:
        return _open_part(source, options, parts)
    if options.verify and kind != "store":
        raise InputError(f"--verify compares the checksums of a store, but {source} is none")
    if kind != "file":
        if options.verify:
            from graphham.graph.store import verify_store

            verify_store(source)
        return attach_tables(as_graph(source), options)
    from graphham.io import read_graph
    from graphham.io.files import unpacking_at_most

    with unpacking_at_most(options.max_unpacked):
        graph = read_graph(
            Path(source).expanduser(),
            source=options.source,
            target=options.target,
            weight=options.weight,
            directed=options.directed,
            skip_bad_rows=options.skip_bad_rows,
        )
    return attach_tables(graph, options)


def _open_part(source: str, options: GraphOptions, parts: bool) -> Graph:
    """Open this process's part of a split store."""
    from graphham.graph.store_parts import open_part

    if not parts:
        raise InputError(f"{source} is a split store; only a fit of GraphHAM itself reads it")
    if options.features or options.labels:
        raise InputError(
            f"{source} is a split store, which keeps its features and labels; leave --features "
            f"and --labels out, or ingest the graph with them and split it again"
        )
    job = (int(os.environ.get(name, default)) for name, default in _JOB)
    return open_part(Path(source).expanduser(), *job)


def attach_tables(graph: Graph, options: GraphOptions) -> Graph:
    """Attach the feature and label tables the user gave, if any."""
    if options.drop and options.features is None:
        raise InputError(f"--drop {options.drop} needs --features, whose columns it leaves out")
    if options.features is None and options.labels is None:
        return graph
    from graphham.io import attach_features, attach_labels
    from graphham.io.files import unpacking_at_most

    with unpacking_at_most(options.max_unpacked):
        if options.features is not None:
            graph = attach_features(
                graph,
                options.features,
                options.id_column,
                options.isolated,
                options.labels,
                drop=split_names(options.drop) if options.drop else (),
                fill_missing=options.fill_missing,
                skip_bad_rows=options.skip_bad_rows,
            )
        if options.labels is not None:
            graph = attach_labels(
                graph, options.labels, options.id_column, options.isolated, options.skip_bad_rows
            )
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
