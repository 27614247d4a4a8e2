"""Hierarchies a user would otherwise pick: Louvain, Leiden, Paris, Ward, smoothed k-means.

Each is asked for the same numbers of groups as ours. They read links (and DeepWalk vectors or
features, as named), never labels.
"""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph

Codes = npt.NDArray[np.int32]

_RESOLUTIONS = 24
_NEAREST = 15
_PATIENCE = 60.0  # seconds of processor time for one resolution


@dataclass(frozen=True, eq=False)
class Peer:
    """A peer's answer.

    Args:
        levels: Per level ``(num_nodes,)`` int32 groups, fine to coarse.
        linkage: The whole binary tree, where the peer makes one.
    """

    levels: list[Codes]
    linkage: npt.NDArray[np.float64] | None = None


def peer_hierarchy(name: str, graph: Graph, groups: Sequence[int], seed: int = 0) -> Peer:
    """Return one peer's hierarchy of a graph.

    Args:
        name: One of :data:`PEERS`.
        graph: The graph; its labels are not read.
        groups: Wanted groups per level, fine to coarse.
        seed: Of the peer's draws.
    """
    if name not in PEERS:
        raise InputError(f"there is no peer {name!r}; choose {', '.join(PEERS)}")
    try:
        import sknetwork  # noqa: F401
    except ImportError as error:
        raise InputError(
            "hierarchies of other methods need scikit-network; install graphham[figures]"
        ) from error
    return PEERS[name][1](graph, list(groups), seed)


def _communities(kind: str) -> Callable[[Graph, list[int], int], Peer]:
    def find(graph: Graph, groups: list[int], seed: int) -> Peer:
        adjacency = _undirected(graph)
        levels: list[Codes] = []
        codes = np.arange(graph.num_nodes)
        for count in groups:
            found = _search(kind, adjacency, count, seed, codes)
            codes = found[codes]
            levels.append(codes.astype(np.int32))
            member = sp.csr_matrix((np.ones(len(found)), (np.arange(len(found)), found)))
            # The next level clusters the groups found, so that levels nest.
            adjacency = sp.csr_matrix(member.T @ adjacency @ member)
        return Peer(levels)

    return find


def _search(kind: str, adjacency: Any, count: int, seed: int, codes: Any) -> Any:
    """Return the partition whose number of groups in use comes nearest to ``count``."""
    resolutions = np.geomspace(0.05, 20, _RESOLUTIONS).tolist()
    # scikit-network's Leiden can go in circles for ever; Louvain cannot.
    run = _watched if kind == "leiden" else _partitions
    best: tuple[int, Any] | None = None
    for found in run(kind, adjacency, resolutions, seed):
        sizes = np.bincount(found[codes])
        gap = abs(int((sizes >= 0.01 * sizes.sum()).sum()) - count)
        if best is None or gap < best[0]:
            best = gap, found
    if best is None:
        raise InputError(
            f"{kind} gave no answer within {_PATIENCE:.0f} s at any resolution; if a script of "
            f"yours calls this, it must begin its work under 'if __name__ == \"__main__\"'"
        )
    return best[1]


def _partitions(kind: str, adjacency: Any, resolutions: list[float], seed: int) -> Iterator[Any]:
    """Yield the groups of each row, one resolution after the other."""
    from sknetwork.clustering import Leiden, Louvain

    method = {"louvain": Louvain, "leiden": Leiden}[kind]
    settings = {"tol_optimization": 0.01} if kind == "leiden" else {}  # fewer circles
    for resolution in resolutions:
        yield method(resolution=resolution, random_state=seed, **settings).fit_predict(adjacency)


def _watched(
    kind: str,
    adjacency: Any,
    resolutions: list[float],
    seed: int,
    patience: float = _PATIENCE,
) -> Iterator[Any]:
    """Yield the same from a process of its own; a resolution it gets lost in is left out.

    Patience is in seconds of processor time for one resolution: a busy machine changes nothing.
    """
    spawn = multiprocessing.get_context("spawn")
    at = 0
    while at < len(resolutions):
        answers, sender = spawn.Pipe(duplex=False)
        given = (sender, kind, adjacency, resolutions[at:], seed, patience)
        child = spawn.Process(target=_send_partitions, args=given, daemon=True)
        child.start()
        sender.close()
        try:
            while at < len(resolutions):
                at += 1
                yield answers.recv()
        except EOFError:
            pass  # it was ended in the middle of this resolution; another goes on with the next
        finally:
            child.kill()
            child.join()
            answers.close()


def _send_partitions(
    sender: Any, kind: str, adjacency: Any, resolutions: list[float], seed: int, patience: float
) -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, whatever it is doing
    found = _partitions(kind, adjacency, resolutions, seed)
    for _ in resolutions:
        signal.setitimer(signal.ITIMER_PROF, patience)
        sender.send(next(found))


def _paris(graph: Graph, groups: list[int], seed: int) -> Peer:
    from sknetwork.hierarchy import Paris, cut_balanced

    tree = Paris().fit_transform(_undirected(graph))
    # Straight cuts of a graph with components mostly find the components; balanced ones do not.
    sizes = np.unique(np.geomspace(graph.num_nodes, 2, 4 * _RESOLUTIONS).round().astype(int))[::-1]

    def cut(size: int) -> Codes:
        return np.asarray(cut_balanced(tree, max_cluster_size=size), dtype=np.int32)

    return Peer(_cuts(cut, sizes.tolist(), groups), np.asarray(tree, dtype=np.float64))


def _ward(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Join linked nodes by Ward's rule on spectral coordinates of the graph."""
    from sknetwork.embedding import Spectral

    size = min(20, graph.num_nodes - 2)
    with warnings.catch_warnings():
        # It builds a matrix in a way that SciPy means to change; nobody here can do anything.
        warnings.simplefilter("ignore", FutureWarning)
        vectors = Spectral(size).fit_transform(_undirected(graph))
    return _ward_tree(np.asarray(vectors), _undirected(graph), groups)


def _ward_walks(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Join near nodes by Ward's rule on DeepWalk vectors."""
    from sklearn.neighbors import kneighbors_graph

    from graphham.methods.registry import make_method

    vectors = make_method("deepwalk", seed=seed).fit(graph).embedding_
    nearest = min(_NEAREST, graph.num_nodes - 1)
    return _ward_tree(vectors, kneighbors_graph(vectors, nearest), groups)


def _ward_tree(vectors: npt.NDArray[Any], connectivity: Any, groups: list[int]) -> Peer:
    from sklearn.cluster import ward_tree

    connectivity = sp.csr_matrix(connectivity + connectivity.T)
    with warnings.catch_warnings():
        # Several components are joined for us, which is what we want.
        warnings.simplefilter("ignore", UserWarning)
        children, _, leaves, _, heights = ward_tree(
            vectors, connectivity=connectivity, return_distance=True
        )
    linkage = np.column_stack([children, heights, np.zeros(len(children))]).astype(np.float64)
    counts = np.unique(np.geomspace(1, leaves, 8 * _RESOLUTIONS).round().astype(int))
    levels = _cuts(lambda count: _cut(children, leaves, count), counts.tolist(), groups)
    return Peer(levels, linkage)


def _cuts(cut: Callable[[int], Codes], places: list[int], groups: list[int]) -> list[Codes]:
    """Cut a tree once per level so that the groups in use come nearest to the wanted numbers.

    Stray nodes and small components are groups of their own near the root; cutting for exactly the
    wanted number would find little else.

    Args:
        cut: Gives the groups of one cut.
        places: Where to try cutting, coarse to fine.
        groups: Wanted groups per level, fine to coarse.
    """
    levels: list[Codes] = []
    start = 0
    for wanted in reversed(groups):
        best: tuple[int, int, Codes] | None = None
        # Finer cuts of one tree lie inside coarser ones, so levels nest.
        for at in range(start, len(places)):
            codes = cut(places[at])
            sizes = np.bincount(codes)
            used = int((sizes >= 0.01 * len(codes)).sum())
            gap = abs(used - wanted)
            if best is None or gap < best[0]:
                best = gap, at, codes
            if used > 2 * wanted:  # deeper cuts only make crumbs
                break
        assert best is not None
        start = best[1]
        levels.insert(0, best[2])
    return levels


def _cut(children: Any, leaves: int, count: int) -> Codes:
    """Undo the last ``count - 1`` joins of a tree."""
    kept = len(children) - (count - 1)
    above = np.arange(leaves + kept)
    for join in range(kept - 1, -1, -1):
        above[children[join]] = above[leaves + join]
    return np.unique(above[:leaves], return_inverse=True)[1].astype(np.int32)


def _kmeans(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Cluster features averaged over two hops, the fine level inside the coarse groups."""
    from sklearn.cluster import KMeans

    vectors = _smoothed(graph)
    levels: list[Codes] = []
    codes = np.zeros(graph.num_nodes, dtype=np.int64)
    for count in reversed(groups):
        sizes = np.bincount(codes)
        # Each next subgroup goes to the group with the most nodes per subgroup.
        parts = np.ones(len(sizes), dtype=np.int64)
        while parts.sum() < count:
            parts[np.argmax(sizes / parts)] += 1
        finer = np.zeros(graph.num_nodes, dtype=np.int64)
        start = 0
        for group, part in enumerate(parts.tolist()):
            rows = np.flatnonzero(codes == group)
            part = min(part, len(rows))
            if part > 1:
                model = KMeans(part, n_init=3, random_state=seed)
                finer[rows] = start + model.fit_predict(vectors[rows])
            else:
                finer[rows] = start
            start += max(part, 1)
        codes = np.unique(finer, return_inverse=True)[1]
        levels.insert(0, codes.astype(np.int32))
    return Peer(levels)


def _smoothed(graph: Graph, steps: int = 2, dim: int = 64) -> npt.NDArray[np.float32]:
    from sklearn.decomposition import TruncatedSVD

    if graph.features is None:
        raise InputError(f"{graph.name!r} has no features to cluster by")
    adjacency = graph.adjacency() + sp.eye(graph.num_nodes, format="csr", dtype=np.float32)
    walk = sp.diags(1 / np.asarray(adjacency.sum(axis=1)).ravel()) @ adjacency
    vectors: Any = graph.features
    if min(vectors.shape) > dim + 1:
        vectors = TruncatedSVD(dim, random_state=0).fit_transform(vectors)
    elif sp.issparse(vectors):
        vectors = vectors.toarray()
    for _ in range(steps):
        vectors = walk @ vectors
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return np.asarray(vectors - vectors.mean(axis=0), dtype=np.float32)


def _undirected(graph: Graph) -> sp.csr_matrix:
    adjacency = graph.adjacency().astype(np.float64)
    if graph.directed:
        adjacency = adjacency + adjacency.T
    # scikit-network's compiled parts read 32-bit indices.
    return sp.csr_matrix(
        (adjacency.data, adjacency.indices.astype(np.int32), adjacency.indptr.astype(np.int32)),
        shape=adjacency.shape,
    )


PEERS: dict[str, tuple[str, Callable[[Graph, list[int], int], Peer]]] = {
    "louvain": ("Louvain, then Louvain on its groups", _communities("louvain")),
    "leiden": ("Leiden, then Leiden on its groups", _communities("leiden")),
    "paris": ("Paris, the tree cut twice", _paris),
    "ward": ("Ward's tree on spectral coordinates along links, cut twice", _ward),
    "ward-deepwalk": ("Ward's tree on DeepWalk vectors, cut twice", _ward_walks),
    "kmeans": ("k-means of two-hop smoothed features, then inside its groups", _kmeans),
}
