"""Maps of the nodes, and places on an old map."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.results import projection
from graphham.results.projection import pca_map, place, place_on_map, read_map, run_map, tsne_map
from graphham.results.run_writer import Run, start_run
from tests.outputs import blobs, make_graph, make_result


def small_run(place_: Path, count: int = 60) -> Run:
    result = make_result(count)
    with start_run(place_, {"seed": 1}) as writer:
        return writer.finish(result, {}, make_graph(result), {})


def test_the_same_seed_gives_the_same_map_and_keeps_groups_apart() -> None:
    vectors, codes = blobs(300)
    one, two = tsne_map(vectors, seed=3), tsne_map(vectors, seed=3)
    np.testing.assert_array_equal(one.xy, two.xy)
    assert one.note == "t-SNE of all 300 nodes."
    nearest = np.argsort(((one.xy[:, None] - one.xy[None]) ** 2).sum(2), axis=1)[:, 1]
    assert (codes[nearest] == codes).mean() > 0.97


def test_a_large_map_is_a_sample_with_the_rest_beside_it() -> None:
    vectors, codes = blobs(900)
    made = tsne_map(vectors, seed=0, sample=300)
    assert "sample of 300 nodes; the other 600" in made.note
    assert np.isfinite(made.xy).all()
    nearest = np.argsort(((made.xy[:, None] - made.xy[None]) ** 2).sum(2), axis=1)[:, 1]
    assert (codes[nearest] == codes).mean() > 0.97


def test_known_points_are_placed_where_they_are() -> None:
    vectors, _ = blobs(400)
    xy = pca_map(vectors).xy
    seen = place(vectors[:50], vectors, xy)
    assert np.median(np.linalg.norm(seen - xy[:50], axis=1)) < 0.05


def test_a_run_keeps_its_map_until_its_vectors_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(tmp_path / "run")
    assert read_map(run) is None
    made = run_map(run)
    monkeypatch.setattr(projection, "tsne_map", None)  # a second map must not be computed
    np.testing.assert_array_equal(run_map(run).xy, made.xy)
    monkeypatch.undo()
    for damaged in (b"", b"PK\x03\x04 cut short"):
        (run.path / "map.npz").write_bytes(damaged)
        assert read_map(run) is None
    with zipfile.ZipFile(run.path / "map.npz", "w") as archive:
        # An array whose header never ends: Python's tokenizer reads it, and has errors of its own.
        archive.writestr("about.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'(\n")
    assert read_map(run) is None
    np.testing.assert_array_equal(run_map(run).xy, made.xy)
    other = small_run(tmp_path / "other", 61)
    (other.path / "map.npz").write_bytes((run.path / "map.npz").read_bytes())
    assert read_map(other) is None


def test_new_nodes_land_beside_their_kin(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    xy = run_map(run).xy
    seen = place_on_map(run, run.embedding[:20] * 3)  # only directions count
    assert np.median(np.linalg.norm(seen - xy[:20], axis=1)) < 0.2
    with pytest.raises(InputError, match="have 3 numbers"):
        place_on_map(run, np.ones((2, 3), np.float32))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_tiny_graphs_have_a_map_too(count: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    assert np.isfinite(tsne_map(vectors).xy).all()
    assert tsne_map(vectors).xy.shape == (count, 2)
