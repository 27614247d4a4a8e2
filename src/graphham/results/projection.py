"""Maps: two coordinates per node, and a place on an old map for nodes that came later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.io.files import read_arrays, read_raw
from graphham.readout.neighbors import CellSearch, unit_rows
from graphham.system.atomic import replacing

if TYPE_CHECKING:
    from graphham.results.run_folder import Run

Floats = npt.NDArray[np.float32]
MAP_FILE = "map.npz"
_FORMAT = 1
_CHUNK = 1 << 16
# t-SNE of this many nodes takes about a minute; the others are placed among them.
SAMPLE = 20_000
_PCA_DIM = 40
_PERPLEXITY = 30.0
_PLACE_AMONG = 5


@dataclass(frozen=True, eq=False)
class NodeMap:
    """Where each node lies on the map.

    Args:
        xy: ``(num_nodes, 2)`` float32 coordinates.
        method: ``t-SNE`` or ``PCA``.
        num_laid_out: Number of nodes the method itself laid out; the others were placed beside
            their nearest among those.
    """

    xy: Floats
    method: str
    num_laid_out: int

    @property
    def note(self) -> str:
        """How the map was made, in one sentence."""
        total = len(self.xy)
        if self.num_laid_out >= total:
            return f"{self.method} of all {total:,} nodes."
        return (
            f"{self.method} of a sample of {self.num_laid_out:,} nodes; the other "
            f"{total - self.num_laid_out:,} were placed beside their nearest in the sample."
        )


def pca_map(vectors: npt.NDArray[Any]) -> NodeMap:
    """Lay nodes out by the two main directions of their unit vectors: rough, but at once."""
    return NodeMap(_standard(principal(vectors, 2)), "PCA", len(vectors))


def tsne_map(vectors: npt.NDArray[Any], seed: int = 0, sample: int = SAMPLE) -> NodeMap:
    """Lay nodes out by t-SNE of their unit vectors; the same seed gives the same map.

    Args:
        vectors: ``(num_nodes, dim)``.
        seed: Decides the sample and t-SNE's own choices.
        sample: Most nodes to run t-SNE on; the rest is placed by :func:`place`.
    """
    if len(vectors) < 5:  # t-SNE needs neighbours to work with
        return pca_map(vectors)
    points = principal(vectors, _PCA_DIM)
    if len(points) <= sample:
        return NodeMap(_standard(_tsne(points, seed)), "t-SNE", len(points))
    chosen = np.random.default_rng([seed, 77]).choice(len(points), sample, replace=False)
    chosen.sort()
    laid = _standard(_tsne(points[chosen], seed))
    xy = np.empty((len(points), 2), dtype=np.float32)
    others = np.setdiff1d(np.arange(len(points)), chosen, assume_unique=True)
    xy[chosen] = laid
    xy[others] = place(points[others], points[chosen], laid, seed)
    return NodeMap(xy, "t-SNE", sample)


def place(asked: npt.NDArray[Any], known: Floats, xy: Floats, seed: int = 0) -> Floats:
    """Put each asking point among its nearest known points on the map.

    The mean of the places of the five nearest, nearer ones counting more. A mean across two far
    parts of the map would lie in no man's land, so places far from the nearest one's are left out.

    Args:
        asked: ``(num_asked, dim)`` points.
        known: ``(num_known, dim)`` points that are on the map.
        xy: ``(num_known, 2)`` their places.
        seed: Decides how the search is cut into cells.
    """
    rows, away = CellSearch(known, seed).query(asked, _PLACE_AMONG)
    places = xy[rows]
    scale = np.maximum(away[:, -1:], 1e-12)
    weight = np.exp(-3 * away / scale)
    spread = np.linalg.norm(xy.std(axis=0))
    weight *= np.linalg.norm(places - places[:, :1], axis=2) < 0.2 * spread + 1e-9
    weight[:, 0] = np.maximum(weight[:, 0], 1e-6)
    mean = (places * weight[:, :, None]).sum(1) / weight.sum(1)[:, None]
    return np.asarray(mean, dtype=np.float32)


def principal(vectors: npt.NDArray[Any], dim: int) -> Floats:
    """Return the unit vectors in their ``dim`` main directions, with a fixed sign.

    The directions come from one ``(dim, dim)`` table, so a million memory-mapped rows take seconds.
    """
    return project(vectors, *directions(vectors, dim))


def directions(
    vectors: npt.NDArray[Any], dim: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the mean unit vector and the ``(width, dim)`` main directions around it."""
    width = vectors.shape[1]
    total, table = np.zeros(width), np.zeros((width, width))
    for start in range(0, len(vectors), _CHUNK):
        part = unit_rows(vectors[start : start + _CHUNK])
        total += part.sum(axis=0, dtype=np.float64)
        table += part.T @ part
    mean = total / max(len(vectors), 1)
    _, axes = np.linalg.eigh(table / max(len(vectors), 1) - np.outer(mean, mean))
    axes = axes[:, ::-1][:, :dim]
    # The sign of a direction is arbitrary; its largest entry is made positive.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    axes = axes * np.where(signs == 0, 1, signs)
    if axes.shape[1] < dim:
        axes = np.pad(axes, ((0, 0), (0, dim - axes.shape[1])))
    return mean, axes


def project(vectors: npt.NDArray[Any], mean: Any, axes: Any) -> Floats:
    """Return the coordinates of the unit vectors along given directions."""
    out = np.empty((len(vectors), axes.shape[1]), dtype=np.float32)
    for start in range(0, len(vectors), _CHUNK):
        out[start : start + _CHUNK] = (unit_rows(vectors[start : start + _CHUNK]) - mean) @ axes
    return out


def _tsne(points: Floats, seed: int) -> Floats:
    try:
        from openTSNE import TSNE
    except ImportError:
        raise InputError(
            "maps need openTSNE, which is not installed; pip install 'graphham[view]'"
        ) from None
    start = points[:, :2] / max(float(points[:, 0].std()), 1e-12) * 1e-4
    model = TSNE(
        perplexity=min(_PERPLEXITY, max(1.0, (len(points) - 1) / 3)),
        early_exaggeration_iter=100,
        n_iter=300,
        # Barnes-Hut wins on small maps; the grid method on large ones.
        negative_gradient_method="bh" if len(points) < 10_000 else "fft",
        neighbors="exact" if len(points) < 5_000 else "approx",
        initialization=start.astype(np.float64),
        random_state=seed,
        # Two threads add up in another order than one: the map would depend on the machine.
        n_jobs=1,
    )
    return np.asarray(model.fit(points), dtype=np.float32)


def _standard(xy: Floats) -> Floats:
    """Centre a map and scale it to a spread of one, so that views can rely on its size."""
    centred = xy - xy.mean(axis=0)
    return np.asarray(centred / max(float(centred.std()), 1e-12), dtype=np.float32)


def read_map(run: Run) -> NodeMap | None:
    """Return the map kept in the run folder; ``None`` if there is none that fits the run."""
    path = run.path / MAP_FILE
    if not path.is_file():
        return None
    try:
        file = read_arrays(path, read_raw(path))
        about = json.loads(str(file["about"]))
        xy = np.asarray(file["xy"], dtype=np.float32)
        fits = about["format"] == _FORMAT and xy.shape == (len(run.embedding), 2)
        sound = fits and about["embedding"] == _mark(run) and bool(np.isfinite(xy).all())
        return NodeMap(xy, str(about["method"]), int(about["laid_out"])) if sound else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None  # a damaged map is made again


def run_map(run: Run, seed: int | None = None, sample: int = SAMPLE) -> NodeMap:
    """Return the run's map: the one it keeps, or a new one that it keeps from now on.

    Args:
        run: A finished run.
        seed: The run's own seed when not given.
        sample: Most nodes to run t-SNE on.
    """
    known = read_map(run)
    if known is not None:
        return known
    chosen = int(run.config.get("seed", 0)) if seed is None else seed
    made = tsne_map(run.embedding, chosen, sample)
    about = {
        "format": _FORMAT,
        "method": made.method,
        "laid_out": made.num_laid_out,
        "embedding": _mark(run),
    }
    try:
        with replacing(run.path / MAP_FILE) as temporary, temporary.open("wb") as file:
            np.savez(file, xy=made.xy, about=np.array(json.dumps(about)))
    except OSError:
        pass  # a run that cannot be written to is still worth looking at
    return made


def place_on_map(run: Run, vectors: npt.NDArray[Any]) -> Floats:
    """Place vectors of any nodes on the run's map; ``(num_nodes, 2)``.

    Vectors must come from the run's own model (:func:`graphham.results.encoder.embed_graph`).
    """
    if vectors.shape[1] != run.embedding.shape[1]:
        raise InputError(
            f"the vectors have {vectors.shape[1]} numbers, those of the run {run.path} have "
            f"{run.embedding.shape[1]}; embed the nodes with this run"
        )
    known = run_map(run)
    mean, axes = directions(run.embedding, _PCA_DIM)
    base = project(run.embedding, mean, axes)
    return place(project(vectors, mean, axes), base, known.xy)


def _mark(run: Run) -> str:
    """Return what tells this run's vectors from those of a run that took its place."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    vectors = run.embedding
    step = max(1, len(vectors) // 1000)
    digest.update(np.ascontiguousarray(vectors[::step]).data)
    return f"{len(vectors)}-{digest.hexdigest()}"


def map_path(run: Run) -> Path:
    """Return where the run keeps its map."""
    return run.path / MAP_FILE
