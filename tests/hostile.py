"""A run in which every text that people can give is an attack on the page that shows it."""

import dataclasses
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphham.graph.graph import Labels, build_graph
from graphham.results.run_writer import Run, start_run
from tests.outputs import HOSTILE, make_result

ATTACKS = [
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    '<a href="javascript:window.hacked=1">x</a>',
    '"><svg onload=window.hacked=1>',
    "{{7*7}}${7*7}",
    "\u202egnp.exe\u2066",
    "👩‍🚀🏳️‍🌈",
]


def write_hostile_run(place: Path) -> Run:
    """A run in which every text that people can give is an attack."""
    ids = [*ATTACKS, *(h for h in HOSTILE if h)]
    count = len(ids)
    base = make_result(count, (4, 2), ids=ids, labels="none")
    labels = Labels((*ATTACKS[:3], "x" * 10_000), codes=(np.arange(count) % 4).astype(np.int32))
    result = dataclasses.replace(base, labels=labels)
    features = sp.csr_matrix(np.eye(4)[result.groups[0]].astype(np.float32))
    graph = build_graph(
        np.arange(count),
        (np.arange(count) + 1) % count,
        count,
        ids=result.ids,
        features=features,
        feature_names=ATTACKS[:4],
        labels=labels,
        titles=[t * 3 for t in ids],
        name=ATTACKS[0],
    )
    with start_run(place, {"seed": 0, "task": "embed"}) as writer:
        writer.log({"epoch": 1, "loss": 1.0})
        return writer.finish(result, {"w": np.ones(2, np.float32)}, graph, {"notes": [ATTACKS[1]]})
