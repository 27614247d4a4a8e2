"""New nodes alone, linked to known ids, are read as if the whole graph had been given."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io.joined import join_graphs
from tests.reference.graphs import planted, without_features

WHOLE = replace(
    planted().graph,
    ids=NodeIds([f"n{i}" for i in range(180)]),
    feature_names=[f"w{i}" for i in range(planted().graph.num_features)],
)
NEW = np.arange(170, 180)
SMALL = {"groups": (4, 2), "dim": 8, "epochs": 2}


def parts(whole: Graph) -> tuple[Graph, list[tuple[str, str]], pa.Table]:
    """Take the last nodes off; return the rest, their links, and the table of their features."""
    ends = whole.edge_list()
    is_new = (ends >= 170).any(1)
    old = ends[~is_new]
    rest = build_graph(
        old[:, 0],
        old[:, 1],
        170,
        ids=whole.ids.take(np.arange(170)),
        features=None if whole.features is None else whole.features[:170],
        feature_names=whole.feature_names,
    )
    links = [(str(whole.ids[a]), str(whole.ids[b])) for a, b in ends[is_new].tolist()]
    columns: dict[str, object] = {"id": [str(whole.ids[i]) for i in NEW]}
    if whole.features is not None:
        matrix = np.asarray(getattr(whole.features, "toarray", lambda: whole.features)())
        for i, name in enumerate(whole.feature_names or ()):
            columns[name] = matrix[NEW, i]
    return rest, links, pa.table(columns)


def linked(links: list[tuple[str, str]]) -> set[str]:
    return {end for pair in links for end in pair}


def test_joining_gives_the_whole_graph_back() -> None:
    rest, links, table = parts(WHOLE)
    joined, rows = join_graphs(rest, gh.as_graph(links), table)
    fresh = {str(i) for i in WHOLE.ids.take(NEW).tolist()} & linked(links)
    assert {str(joined.ids[r]) for r in rows} == fresh
    order = WHOLE.ids.find([str(v) for v in joined.ids.tolist()])
    for row, other in enumerate(order.tolist()):
        mine = {str(joined.ids[i]) for i in joined.neighbors(row)}
        assert mine == {str(WHOLE.ids[i]) for i in WHOLE.neighbors(other)} & {
            str(v) for v in joined.ids.tolist()
        }
    assert joined.features is not None
    assert WHOLE.features is not None
    np.testing.assert_allclose(
        np.asarray(getattr(joined.features, "todense", lambda: joined.features)()),
        np.asarray(getattr(WHOLE.features, "todense", lambda: WHOLE.features)())[order],
        rtol=1e-6,
    )


def test_new_nodes_alone_are_read_as_with_the_whole_graph(tmp_path: Path) -> None:
    rest, links, table = parts(WHOLE)
    model = gh.GraphHAM(**SMALL).fit(rest)
    model.save(tmp_path / "run")
    found = gh.load(tmp_path / "run").read_new(links, table)
    joined, rows = join_graphs(rest, gh.as_graph(links), table)
    np.testing.assert_array_equal(found.embedding, model.transform(joined)[rows])
    pq.write_table(table.select([0, *range(table.num_columns - 1, 0, -1)]), tmp_path / "n.parquet")
    (tmp_path / "l.csv").write_text("".join(f"{a},{b}\n" for a, b in links))
    line = ["embed", str(tmp_path / "run"), str(tmp_path / "l.csv"), "--new-only"]
    line += ["--features", str(tmp_path / "n.parquet"), "--out", str(tmp_path / "o.parquet")]
    assert main(line) == 0
    written = pq.read_table(tmp_path / "o.parquet")
    assert written["id"].to_pylist() == found.ids.tolist()
    np.testing.assert_array_equal(written["embedding"].to_pylist(), found.embedding)


def test_without_features_links_are_enough() -> None:
    rest, links, _ = parts(without_features(WHOLE))
    found = gh.GraphHAM(**SMALL).fit(rest).read_new(links)
    assert found.num_nodes == len({e for e in linked(links) if int(e[1:]) >= 170})
    assert np.isfinite(found.embedding).all()


def test_what_cannot_be_joined_is_said() -> None:
    rest, links, table = parts(WHOLE)
    with pytest.raises(InputError, match="none is new"):
        join_graphs(rest, gh.as_graph([("n1", "n2")]), table)
    with pytest.raises(InputError, match="none of the 2 ids is known"):
        join_graphs(rest, gh.as_graph([("x", "y")]), table)
    with pytest.raises(InputError, match="features; give those of the"):
        join_graphs(rest, gh.as_graph(links))
    with pytest.raises(InputError, match="lack the column 'w3'"):
        join_graphs(rest, gh.as_graph(links), table.drop_columns(["w3"]))
    with pytest.raises(InputError, match="without features"):
        join_graphs(without_features(rest), gh.as_graph(links), table)
    with pytest.raises(InputError, match="has no weights"):
        join_graphs(rest, gh.as_graph([("n1", "x", 2.0)]), table)
    numbered = replace(rest, ids=NodeIds.range(170))
    with pytest.raises(InputError, match="whole numbers, but"):
        join_graphs(numbered, gh.as_graph([("n1", "x")]), table)
