"""K-means: as good as scikit-learn's, repeatable, and sound on degenerate points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from graphham.model import kmeans as module
from graphham.model.kmeans import kmeans, nearest


def blobs(seed, count=300, groups=5, dim=4, spread=0.3):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(groups, dim)) * 3
    codes = rng.integers(0, groups, count)
    points = centers[codes] + spread * rng.normal(size=(count, dim))
    return points.astype(np.float32), codes


def inertia(points, centers, codes):
    return float(((points.astype(np.float64) - centers[codes]) ** 2).sum())


@pytest.mark.parametrize(("seed", "count"), [(0, 1), (1, 3), (2, 5), (3, 7)])
def test_as_tight_as_scikit_learn(seed, count):
    points, _ = blobs(seed)
    centers, codes = kmeans(points, count, seed)
    exact = KMeans(count, n_init=8, random_state=0).fit(points).inertia_
    assert inertia(points, centers, codes) <= 1.03 * exact + 1e-6


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 12))
def test_every_point_is_with_its_nearest_centre(seed, rows, count):
    count = min(count, rows)
    points = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    centers, codes = kmeans(points, count, seed)
    distance = ((points[:, None].astype(np.float64) - centers[None]) ** 2).sum(2)
    np.testing.assert_allclose(
        distance[np.arange(rows), codes], distance.min(1), rtol=1e-4, atol=1e-5
    )
    assert centers.shape == (count, 3)
    if count == rows:
        assert inertia(points, centers, codes) == pytest.approx(0, abs=1e-6)


def test_clear_groups_are_found_and_the_key_decides_everything():
    points, truth = blobs(1, spread=0.05)
    centers, codes = kmeans(points, 5, 3)
    assert adjusted_rand_score(truth, codes) == 1.0
    again, same = kmeans(points, 5, 3)
    np.testing.assert_array_equal(centers, again)
    np.testing.assert_array_equal(codes, same)


def test_equal_points_and_more_centres_than_distinct_points():
    points = np.zeros((10, 2), dtype=np.float32)
    points[7:] = 1.0
    centers, codes = kmeans(points, 4, 0)
    assert np.isfinite(centers).all()
    assert inertia(points, centers, codes) == pytest.approx(0, abs=1e-9)
    _, one = kmeans(np.zeros((5, 0), dtype=np.float32), 2, 0)
    assert set(one.tolist()) <= {0, 1}


def test_an_empty_centre_moves_to_the_worst_served_point():
    points = np.array([[0.0], [0.1], [5.0], [9.0]], dtype=np.float32)
    far = np.array([[0.0], [100.0], [200.0]], dtype=np.float32)
    centers, lowest = module._lloyd(points, far, 50)
    assert lowest == pytest.approx(0.005, abs=1e-4)
    assert sorted(np.round(centers[:, 0], 2)) == pytest.approx([0.05, 5.0, 9.0])


def test_many_points_are_clustered_from_a_sample(monkeypatch):
    points, truth = blobs(2, count=2000, spread=0.05)
    monkeypatch.setattr(module, "_SAMPLE", 200)
    _, codes = kmeans(points, 5, 0)
    assert len(codes) == 2000
    assert adjusted_rand_score(truth, codes) == 1.0


def test_nearest_returns_the_squared_distance_less_the_points_own():
    points, _ = blobs(3, count=20)
    centers = points[:4]
    codes, scores = nearest(points, centers)
    distance = ((points[:, None].astype(np.float64) - centers[None]) ** 2).sum(2)
    np.testing.assert_array_equal(codes, distance.argmin(1))
    np.testing.assert_allclose(
        scores + (points.astype(np.float64) ** 2).sum(1), distance.min(1), atol=1e-3
    )
