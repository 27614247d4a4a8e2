"""Hierarchies a user would otherwise pick: communities, block models, trees, k-means.

Each is asked for the same numbers of groups as ours, or, where it has an opinion, for its own. They
read links (and DeepWalk vectors or features, as named), never labels. Two of them are libraries of
the system's Python (Debian: python3-graph-tool, python3-leidenalg) and run in a process of it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
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
        groups: Wanted groups per level, fine to coarse; none for the peer's own choice, where it
            is one of :data:`CHOOSERS`.
        seed: Of the peer's draws.
    """
    if name not in PEERS:
        raise InputError(f"there is no peer {name!r}; choose {', '.join(PEERS)}")
    if not groups and name not in CHOOSERS:
        raise InputError(f"the peer {name} must be told how many groups to make")
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
    return _nested_kmeans(_smoothed(graph), groups, seed, starts=3)


def _smooth_kmeans(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Cluster our own smoothed inputs in two levels: the peer that needs least."""
    return _nested_kmeans(_three_steps(graph), groups, seed, starts=10)


def _nested_kmeans(vectors: npt.NDArray[Any], groups: list[int], seed: int, starts: int) -> Peer:
    from sklearn.cluster import KMeans

    count_nodes = len(vectors)
    levels: list[Codes] = []
    codes = np.zeros(count_nodes, dtype=np.int64)
    for count in reversed(groups):
        sizes = np.bincount(codes)
        # Each next subgroup goes to the group with the most nodes per subgroup.
        parts = np.ones(len(sizes), dtype=np.int64)
        while parts.sum() < count:
            parts[np.argmax(sizes / parts)] += 1
        finer = np.zeros(count_nodes, dtype=np.int64)
        start = 0
        for group, part in enumerate(parts.tolist()):
            rows = np.flatnonzero(codes == group)
            part = min(part, len(rows))
            if part > 1:
                model = KMeans(part, n_init=starts, random_state=seed)
                finer[rows] = start + model.fit_predict(vectors[rows])
            else:
                finer[rows] = start
            start += max(part, 1)
        codes = np.unique(finer, return_inverse=True)[1]
        levels.insert(0, codes.astype(np.int32))
    return Peer(levels)


def _smooth_ward(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Join any two nodes by Ward's rule on our own smoothed inputs, and cut the tree twice."""
    from scipy.cluster.hierarchy import linkage

    tree = linkage(_three_steps(graph), "ward")
    children = tree[:, :2].astype(np.int64)
    return Peer([_cut(children, graph.num_nodes, count) for count in groups], tree)


def _spectral_kmeans(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Cluster leading eigenvectors, as many as groups, each level by itself.

    Every pair of nodes gets a little of a link, a mean degree in all: without that the first
    eigenvectors of a graph with small components are these components.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh
    from sklearn.cluster import KMeans

    links, count = _undirected(graph), graph.num_nodes
    degrees = np.asarray(links.sum(axis=1)).ravel()
    little = degrees.mean() / count
    root = 1 / np.sqrt(degrees + little * count)

    def multiply(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        scaled = root * np.ravel(x)
        product: npt.NDArray[Any] = root * (links @ scaled + little * scaled.sum())
        return product

    work = LinearOperator((count, count), matvec=multiply, dtype=np.float64)
    begin = np.random.default_rng(seed).standard_normal(count)
    most = min(max(groups), count - 2)
    values, vectors = eigsh(work, most, which="LA", v0=begin)
    vectors = vectors[:, np.argsort(-values)]
    levels = []
    for wanted in groups:
        x = vectors[:, :wanted]
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        levels.append(KMeans(wanted, n_init=10, random_state=seed).fit_predict(x).astype(np.int32))
    return Peer(levels)


def _system(name: str, package: str) -> Callable[[Graph, list[int], int], Peer]:
    def find(graph: Graph, groups: list[int], seed: int) -> Peer:
        python = system_python(package)
        script = Path(__file__).parent / "system_script.py"
        links = _undirected(graph).tocoo()
        once = links.row < links.col
        edges = np.column_stack([links.row[once], links.col[once]]).astype(np.int64)
        with tempfile.TemporaryDirectory() as folder:
            given, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(given, edges=edges, count=graph.num_nodes, groups=groups, seed=seed)
            words = [python, "-I", str(script), name, str(given), str(out)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise InputError(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
            with np.load(out) as held:
                return Peer([held[f"level_{i}"].astype(np.int32) for i in (1, 2)])

    return find


def system_python(package: str) -> str:
    """Return the system's Python if it has a package; ``GRAPHHAM_SYSTEM_PYTHON`` names another.

    Raises:
        InputError: It does not.
    """
    named = os.environ.get("GRAPHHAM_SYSTEM_PYTHON")
    python = named or shutil.which("python3", path="/usr/bin") or ""
    words = [python, "-I", "-c", f"import {package}"]
    is_there = bool(python) and Path(python).exists()
    if not is_there or subprocess.run(words, capture_output=True, check=False).returncode:
        debian = {"graph_tool": "python3-graph-tool", "leidenalg": "python3-leidenalg"}[package]
        raise InputError(
            f"the system's Python has no {package}; install it (Debian: {debian}) or name a Python "
            f"that has it by GRAPHHAM_SYSTEM_PYTHON"
        )
    return python


def _umap_hdbscan(graph: Graph, groups: list[int], seed: int) -> Peer:
    """Lay our smoothed inputs out by UMAP and cluster the map by density, fine and coarse."""
    try:
        with warnings.catch_warnings():
            # It says that a part which needs TensorFlow is not there.
            warnings.simplefilter("ignore", ImportWarning)
            umap: Any = importlib.import_module("umap")
    except ImportError as error:
        raise InputError(
            "UMAP + HDBSCAN needs umap-learn, which is not installed; install graphham[peers]"
        ) from error
    vectors = _three_steps(graph)
    with warnings.catch_warnings():
        # It says that a seed costs it its threads, and whom it could not connect.
        warnings.simplefilter("ignore")
        flat = umap.UMAP(n_components=5, random_state=seed).fit_transform(vectors)
    return Peer(density_levels(np.nan_to_num(np.asarray(flat, dtype=np.float64)), groups))


def density_levels(flat: npt.NDArray[np.float64], groups: Sequence[int]) -> list[Codes]:
    """Cluster points by density with smallest clusters of many sizes, and take two levels.

    Points that no cluster wants join that of the nearest one that has a cluster: a node without a
    group would otherwise be in a group of all such nodes.

    Args:
        flat: ``(nodes, dim)`` places.
        groups: Wanted groups per level; the finest and the middle one when there are none.
    """
    from sklearn.cluster import HDBSCAN

    sizes = np.unique(np.geomspace(5, len(flat) / 4, _RESOLUTIONS).round().astype(int)).tolist()
    found = [HDBSCAN(min_cluster_size=size, copy=True).fit_predict(flat) for size in sizes]
    if not groups:
        chosen = [found[0], found[len(found) // 2]]
    else:
        chosen = [min(found, key=lambda codes: abs(codes.max() + 1 - wanted)) for wanted in groups]
    return [_with_nearest(codes, flat) for codes in chosen]


def _with_nearest(codes: npt.NDArray[Any], flat: npt.NDArray[np.float64]) -> Codes:
    """Give points without a cluster that of the nearest point with one."""
    from sklearn.neighbors import KNeighborsClassifier

    lost = codes < 0
    if not lost.any() or lost.all():
        return np.asarray(np.maximum(codes, 0), dtype=np.int32)
    near = KNeighborsClassifier(1).fit(flat[~lost], codes[~lost])
    whole = codes.copy()
    whole[lost] = near.predict(flat[lost])
    return np.asarray(whole, dtype=np.int32)


def _three_steps(graph: Graph) -> npt.NDArray[np.float32]:
    """Return the main directions of the features averaged over three steps, as our fits see it."""
    from experiments.structure_study import group_inputs

    smooth = group_inputs(graph)[2]
    if smooth is None:
        raise InputError(f"{graph.name!r} has no features to cluster by")
    return np.asarray(smooth, dtype=np.float32)


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
    "smooth-kmeans": ("k-means of three-step features, then inside its groups", _smooth_kmeans),
    "smooth-ward": ("Ward's tree on three-step features, cut twice", _smooth_ward),
    "spectral-kmeans": ("k-means on leading eigenvectors, level by level", _spectral_kmeans),
    "leidenalg": ("Leiden, then Leiden inside its groups", _system("leidenalg", "leidenalg")),
    "nested-sbm": ("nested stochastic block model", _system("nested-sbm", "graph_tool")),
    "umap-hdbscan": ("UMAP, then HDBSCAN", _umap_hdbscan),
}
# Peers that also know how many groups they want.
CHOOSERS = ("leidenalg", "nested-sbm", "umap-hdbscan")
