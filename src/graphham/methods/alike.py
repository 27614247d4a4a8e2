"""Whether a graph can be read by a model that was fitted on another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.io.added_nodes import add_notes


def checked_like(graph: Graph, facts: Mapping[str, Any], names: Sequence[str] | None) -> Graph:
    """Return a graph as a model can read it, or refuse one of another kind.

    Features are lined up by name where both graphs have names: their order may differ, and columns
    that the model does not know are left out.

    Args:
        graph: The graph to read.
        facts: What the run remembers of its graph, see
            :func:`graphham.results.run_writer.graph_facts`.
        names: Names of the features the model was fitted on, where they are known.
    """
    if facts.get("features") == 0 and graph.num_features:
        raise InputError(
            f"the model was fitted without features, but the graph has {graph.num_features:,}; "
            f"leave them out (--features), or fit again with features"
        )
    for fact, has, name in (
        ("weighted", graph.weights is not None, "--weight"),
        ("directed", graph.directed, "--directed"),
    ):
        fitted = facts.get(fact)
        if fitted is not None and bool(fitted) != has:
            kinds = [fact if is_so else f"un{fact}" for is_so in (bool(fitted), has)]
            what = "give" if fitted else "leave out"
            raise InputError(
                f"the model was fitted on a graph that is {kinds[0]}, but this one is {kinds[1]}; "
                f"{what} {name}"
            )
    return _lined_up(graph, names)


def _lined_up(graph: Graph, names: Sequence[str] | None) -> Graph:
    if names is None or graph.feature_names is None or graph.features is None:
        return graph
    given, wanted = list(graph.feature_names), list(names)
    if given == wanted:
        return graph
    place = {name: i for i, name in enumerate(given)}
    lacking = [name for name in wanted if name not in place]
    if lacking:
        more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
        raise InputError(
            f"the model was fitted with the feature {lacking[0]!r}{more}, which the graph does not "
            f"have; give the same columns"
        )
    taken = replace(
        graph, features=graph.features[:, [place[n] for n in wanted]], feature_names=wanted
    )
    extra = len(given) - len(wanted)
    if extra:
        taken = add_notes(taken, f"{extra:,} features that the model does not know were left out")
    return taken
