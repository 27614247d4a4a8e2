"""The files of the two largest datasets, in their own formats but small."""

import gzip
from pathlib import Path

from graphham.graph.graph import Graph

EDGES = "1,2\n1,3\n2,3\n7,1\n3,7\n"
GROUP_EDGES = "1,2\n1,1\n7,2\n"
NODES = "\n".join(str(i) for i in range(1, 9)) + "\n"


def check_small_youtube(graph: Graph) -> None:
    graph.validate()
    assert graph.ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert graph.edge_list().tolist() == [[0, 1], [0, 2], [0, 6], [1, 2], [2, 6]]
    assert graph.labels.classes == (1, 2, 3)
    assert graph.labels.values() == [[1, 2], None, None, None, None, None, [2], None]
    assert (graph.report.rows_read, graph.report.isolated, graph.report.components) == (5, 4, 5)


def youtube_tables() -> dict[str, str]:
    return {
        "edges.csv": EDGES,
        "group-edges.csv": GROUP_EDGES,
        "nodes.csv": NODES,
        "groups.csv": "1\n2\n3\n",
    }


PRODUCTS = {
    "raw/num-node-list.csv.gz": "5\n",
    "raw/num-edge-list.csv.gz": "6\n",
    "raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,2\n",
    "raw/node-feat.csv.gz": "0.5,-1.25\n1,2\n3e-2,4\n5,6\n7,8\n",
    "raw/node-label.csv.gz": "0\n2\n1\n\n2\n",
    "split/sales_ranking/train.csv.gz": "2\n0\n",
    "split/sales_ranking/valid.csv.gz": "1\n",
    "split/sales_ranking/test.csv.gz": "4\n3\n",
    "mapping/labelidx2productcategory.csv.gz": "label idx,product category\n0,Books\n1,Toys\n"
    "2,Toys\n",
}


def write_products(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
