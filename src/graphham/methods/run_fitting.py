"""Fit a graph into a run folder, in one go or in several."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.config.settings import RunConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.methods.fitting import fit_graph
from graphham.parallel.partitioned_graph import check_split
from graphham.parallel.ranks import ALONE, Ranks
from graphham.results.run_writer import (
    RunWriter,
    finished_run,
    graph_facts,
    resume_run,
    start_run,
)
from graphham.system.threads import single_threaded
from graphham.training.epochs import Listener
from graphham.training.plan import Plan, plan_fit
from graphham.training.shared_checkpoints import check_shared
from graphham.training.step import check_shards

if TYPE_CHECKING:
    from graphham.results.run_folder import Run


def fit_to_run(
    graph: Graph,
    settings: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    ranks: Ranks = ALONE,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Fit a graph and write the run folder.

    Args:
        graph: The graph.
        settings: What the user gave; a resumed run keeps its own.
        out: The run folder; must not exist unless resumed or overwritten.
        resume: Go on with an unfinished run; one that is finished is returned as it is.
        overwrite: Replace an existing run.
        listener: Who hears about progress.
        ranks: The processes that fit together; the first one writes the folder.
        about: Which form of GraphHAM this is, for the summary.
    """
    from graphham.config.settings import make_config
    from graphham.results.run_folder import Run

    plan: Plan | None = None
    writer: RunWriter | None = None
    if resume:
        done = finished_run(out) if ranks.is_first else None
        if done is not None:
            _check_same_graph(done.config, graph)
        if ranks.tell(done is not None):
            return Run.open(out)
        writer = resume_run(out) if ranks.is_first else None
        settings = make_config(ranks.tell(None if writer is None else writer.config))
        if writer is not None:
            _check_same_graph(writer.config, graph)
    else:
        if settings.train.shards == 1:
            # What makes the numbers is settled once; the run can go on with fewer processes.
            train = settings.train.model_copy(update={"shards": ranks.count})
            settings = settings.model_copy(update={"train": train})
        check_shards(settings.train.shards, ranks)
        check_split(graph, settings, ranks)
        with single_threaded():
            plan = plan_fit(graph.validate(), settings, ranks=ranks, is_run=True)
        if ranks.is_first:
            facts = graph_facts(graph)
            writer = start_run(out, {**plan.config.to_dict(), "graph": facts}, overwrite)
    with contextlib.ExitStack() as held:
        if writer is not None:
            held.enter_context(writer)
        if ranks.count > 1:
            check_shared(ranks, Path(ranks.tell(None if writer is None else str(writer.partial))))
        fitted = fit_graph(
            graph,
            settings,
            run=writer,
            resume=resume,
            listener=listener,
            plan=plan,
            ranks=ranks,
            is_run=True,
        )
        if writer is not None:
            writer.finish(
                fitted.result,
                fitted.state,
                graph,
                {**fitted.summary, "method": about or {"name": "graphham", "settings": {}}},
                status=fitted.status,
                keep_checkpoint=fitted.status == "interrupted",
            )
        ranks.wait()
        return Run.open(out)


def _check_same_graph(config: Mapping[str, Any], graph: Graph) -> None:
    known = config.get("graph", {}).get("fingerprint")
    if known is not None and known != graph.fingerprint():
        raise InputError(
            f"the run was started on another graph than {graph.name!r}; resume it with the same "
            f"edges and features, or start a new run"
        )
