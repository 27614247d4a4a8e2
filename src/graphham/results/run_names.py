"""Give the groups of a fit other names, and keep them in the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphham.errors import InputError
from graphham.results.describe import groups_table
from graphham.results.names import GroupFacts, Namer, Names, names_of

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run


def name_run(
    run: Run,
    graph: Graph | None = None,
    namer: Namer | None = None,
    by_labels: bool = False,
    again: bool = False,
) -> Run:
    """Name the groups of a run and keep the names in it; names that people gave stay.

    The namer is asked about each group once, parents first: what it said is kept in the run, also
    when it fails half-way, and only groups it has not named yet are asked about next time. Without
    a namer and labels, groups get the names back that the fit gave them.

    Args:
        run: A finished run with groups.
        graph: The graph it was fitted on, where the run does not hold it.
        namer: From :class:`~graphham.results.names.GroupFacts` to a name.
        by_labels: Name groups after their most frequent labels; such names end with ``[label]``.
        again: Ask the namer about groups it has named already too.

    Returns:
        The run, read anew.
    """
    how = checked_source(namer, by_labels)
    given = run.given_names()
    kept = {key: name for key, (name, by) in given.items() if by == "person"}
    if namer is not None and not again:
        kept |= {key: name for key, (name, by) in given.items() if by == "namer"}
    if how is None:
        return run.keep_names({}, None)
    result = run.result()
    if by_labels and result.labels is None:
        raise InputError(f"the run {run.path} has no labels to name groups by; leave --labels out")
    heard = Heard(namer)
    try:
        table = groups_table(
            result,
            run.graph() if graph is None else run.check_graph(graph),
            namer=heard if namer is not None else None,
            by_labels=by_labels,
            kept_names=kept,
        )
    except BaseException:
        # An answer may have cost money or minutes, so none is thrown away.
        if heard.names:
            known = {k: name for k, name in kept.items() if given[k][1] == "namer"}
            run.keep_names({**known, **heard.names}, how)
        raise
    return run.keep_names(names_of(table), how)


def checked_source(namer: Namer | None, by_labels: bool) -> str | None:
    """Return who names the groups: ``namer``, ``labels``, or ``None`` for the usual names."""
    if namer is not None and by_labels:
        raise InputError("give a namer or by_labels=True, not both")
    if namer is not None and not callable(namer):
        raise InputError(f"the namer must be a function, got {type(namer).__name__}")
    return "namer" if namer is not None else "labels" if by_labels else None


class Heard:
    """A namer that remembers what it said.

    Args:
        namer: Who is asked.
    """

    def __init__(self, namer: Namer | None) -> None:
        self.namer = namer
        self.names: Names = {}

    def __call__(self, facts: GroupFacts) -> str | None:
        """Ask, remember and return the answer."""
        assert self.namer is not None
        said = self.namer(facts)
        if isinstance(said, str) and said.strip():
            self.names[facts.level, facts.group] = " ".join(said.split())[:200]
        return said
