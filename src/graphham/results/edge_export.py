"""Write what a run says about every link: whom a node listens to, and which links do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Graph

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.graph.neighborhoods import Block
    from graphham.model.inputs import NodeInputs
    from graphham.model.network import LayerPass
    from graphham.results.encoder import Encoder
    from graphham.results.run_folder import Run

Floats = npt.NDArray[np.float32]
Columns = dict[str, Floats]
# Links written at once; a node with more is written by itself.
_CHUNK = 1 << 20


def write_edges(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write one row for each stored link, an undirected one from both of its ends.

    Columns: ``source``, ``target`` (ids); for each layer l ``node_attention_l``,
    ``group_attention_l`` and ``weight_l``, how much the source listens to the target, averaged over
    heads (what a node keeps for itself is not in the table, so they need not add up to one); and
    ``surprise``, which :func:`graphham.groups.contributions.surprise_of_links` explains: above 0
    the link joins groups that have fewer links than their degrees would make. What a method does
    not have is left out.
    """
    import pyarrow.parquet as pq

    assert graph is not None
    surprise = _Surprise.of_run(run, graph)
    attention = _Attention.of_run(run, graph)
    notes = []
    if attention is None:
        notes.append(f"the method {run.method} has no attentions to write")
    if surprise is None:
        notes.append(f"the method {run.method} has no groups that links could fit or not")
    names = attention.names if attention is not None else []
    names = [*names, *(["surprise"] if surprise is not None else [])]
    schema = _schema(graph, names)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first, last in link_spans(graph):
            columns: Columns = {}
            if attention is not None:
                columns |= attention.read(first, last)
            if surprise is not None:
                columns["surprise"] = surprise.read(first, last)
            writer.write_table(_table(graph, first, last, columns, schema))
    return notes


def link_spans(graph: Graph, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield bounds of rows that have at most ``most`` links together, or one row each."""
    most = _CHUNK if most is None else most
    first = 0
    while first < graph.num_nodes:
        last = int(np.searchsorted(graph.indptr, graph.indptr[first] + most, side="right")) - 1
        last = min(max(last, first + 1), graph.num_nodes)
        yield first, last
        first = last


def _schema(graph: Graph, names: list[str]) -> pa.Schema:
    import pyarrow as pa

    kind = graph.ids.to_arrow().type
    ends = [("source", kind), ("target", kind)]
    return pa.schema([*ends, *((name, pa.float32()) for name in names)])


def _table(graph: Graph, first: int, last: int, columns: Columns, schema: Any) -> pa.Table:
    import pyarrow as pa

    indptr = np.asarray(graph.indptr[first : last + 1])
    ids = graph.ids.to_arrow()
    source = np.repeat(np.arange(first, last), np.diff(indptr))
    target = np.asarray(graph.indices[int(indptr[0]) : int(indptr[-1])])
    ends = [ids.take(pa.array(rows)) for rows in (source, target)]
    return pa.table([*ends, *(pa.array(values) for values in columns.values())], schema=schema)


class _Surprise:
    """The surprise of links by the finest memberships, or groups where there are no others."""

    def __init__(self, graph: Graph, memberships: Floats) -> None:
        from graphham.groups.mixtures import count_link_table, link_odds

        self.graph, self.memberships = graph, memberships
        table = count_link_table(graph.indptr, graph.indices, graph.weights, memberships)
        self.odds = link_odds(memberships, table)

    @classmethod
    def of_run(cls, run: Run, graph: Graph) -> _Surprise | None:
        if not run.has_groups:
            return None
        found = run.result()
        if found.memberships:
            return cls(graph, np.asarray(found.memberships[0], dtype=np.float32))
        codes = found.groups[0]
        memberships = np.zeros((len(codes), int(codes.max()) + 1), dtype=np.float32)
        memberships[np.arange(len(codes)), codes] = 1.0
        return cls(graph, memberships)

    def read(self, first: int, last: int) -> Floats:
        from graphham.groups.contributions import surprise_of_links

        return surprise_of_links(
            self.graph.indptr, self.graph.indices, self.memberships, self.odds, first, last
        )


class _Attention:
    """The attentions of a trained network, for the links of some rows at a time.

    The layers are run once over the whole graph; what is kept is as large as the nodes.
    """

    def __init__(self, encoder: Encoder, inputs: NodeInputs, graph: Graph) -> None:
        import torch

        from graphham.readout.whole_graph import full_batch

        self.model, self.inputs = encoder.model.eval(), inputs
        batch = full_batch(self.model, inputs, graph)
        self.block = batch.blocks[0]
        with torch.no_grad():
            self.layers: list[LayerPass] = list(self.model.encode(batch))

    @classmethod
    def of_run(cls, run: Run, graph: Graph) -> _Attention | None:
        if "model" not in run.summary:
            return None
        from graphham.results.encoder import Encoder

        encoder = Encoder.from_run(run)
        return cls(encoder, encoder.inputs_of(graph, graph.ids), graph)

    @property
    def names(self) -> list[str]:
        """The names of the columns, layer by layer."""
        kinds = ("node_attention", "group_attention", "weight")
        return [f"{kind}_{i + 1}" for i in range(len(self.layers)) for kind in kinds]

    def read(self, first: int, last: int) -> Columns:
        """Return the columns for the links of the rows ``first`` to ``last``."""
        import torch

        block, rows = self._part(first, last)
        kept = np.ones(block.num_edges, dtype=bool)
        if block.self_edge:
            kept[block.indptr[:-1]] = False
        chosen = torch.from_numpy(rows)
        columns: list[Floats] = []
        with torch.no_grad():
            for level, layer in enumerate(self.layers):
                x = layer.x
                x = x[chosen] if isinstance(x, torch.Tensor) else self.inputs.rows(rows)
                z = layer.assigned.z[chosen]
                weights = self.model.layer(level).attention_weights(x, block, z)
                parts = (weights.node, weights.group, weights.weight)
                columns += [one.mean(1).cpu().numpy()[kept] for one in parts]
        return dict(zip(self.names, columns, strict=True))

    def _part(self, first: int, last: int) -> tuple[Block, npt.NDArray[np.int64]]:
        """Return the neighbourhoods of some rows, and the graph rows of its sources."""
        from graphham.graph.neighborhoods import Block

        whole = self.block
        begin, end = int(whole.indptr[first]), int(whole.indptr[last])
        around = whole.indices[begin:end].astype(np.int64)
        own = np.arange(first, last)
        others = np.unique(around[(around < first) | (around >= last)])
        # The targets come first, then everybody else they listen to.
        local = np.where(
            (around >= first) & (around < last),
            around - first,
            len(own) + np.searchsorted(others, around),
        )
        rows = np.concatenate([own, others])
        weights = None if whole.weights is None else whole.weights[begin:end]
        indptr = whole.indptr[first : last + 1] - begin
        return Block(indptr, local, len(rows), whole.self_edge, weights), rows
