"""Read graphs, features and labels from files and objects.

``read_graph`` is the way in; ``attach_features`` and ``attach_labels`` replace parts of an existing
graph; ``describe`` says in words what a reader saw; ``write_edges`` writes edges back.
"""

from graphham.io.features import attach_features
from graphham.io.labels import attach_labels
from graphham.io.node_tables import split_spec
from graphham.io.reader import describe, read_graph
from graphham.io.spool import graph_of_edges
from graphham.io.writer import edge_table, write_edges

__all__ = [
    "attach_features",
    "attach_labels",
    "describe",
    "edge_table",
    "graph_of_edges",
    "read_graph",
    "split_spec",
    "write_edges",
]
