"""Feature tables that stay on disk give what tables in memory give."""

import numpy as np
import pytest
import torch

from graphham.config.settings import InputConfig
from graphham.graph.mapped_features import (
    MappedFeatures,
    column_moments,
    gather_rows,
    release,
)
from graphham.graph.store import open_store, write_store
from graphham.methods.fitting import fit_graph
from graphham.model import inputs
from graphham.model.inputs import FeatureMap, _scale_dense, _standard, fit_inputs
from graphham.model.spectral import main_directions
from graphham.sampling.random_stream import Draws, dropout
from graphham.system.buffers import Buffers
from tests.reference.graphs import planted, small_config

TRUTH = planted(300, features="gaussian", dim=20)
TABLE = TRUTH.graph.features * np.float32(3) + np.float32(5)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scaling", ["none", "row", "standard", "tfidf"])
def test_rows_are_scaled_as_the_whole_table_is(kind, scaling):
    raw = TABLE.astype(kind)
    shift, scale = _standard(raw) if scaling == "standard" else (np.zeros(20), np.full(20, 0.7))
    shift, scale = shift.astype("f4"), scale.astype("f4")
    if scaling in ("none", "row"):
        scale = np.ones(20, dtype="f4")
    whole = _scale_dense(raw.astype("f4"), scaling, shift, scale)
    mapped = inputs._mapped(raw, scaling, shift, scale)
    chosen = np.array([7, 0, 299, 7])
    np.testing.assert_allclose(mapped.rows(chosen), whole[chosen], atol=1e-6)
    np.testing.assert_allclose(mapped.span(5, 50), whole[5:50], atol=1e-6)
    np.testing.assert_allclose(mapped.to_tensor(), whole, atol=1e-6)
    weight = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(mapped.matmul(weight), whole @ weight.numpy(), rtol=1e-4, atol=1e-4)


def test_moments_and_directions_are_those_of_the_table():
    (mean, spread), count = column_moments(TABLE)
    assert count == len(TABLE)
    np.testing.assert_allclose(mean, TABLE.mean(0), rtol=1e-5)
    np.testing.assert_allclose(spread, TABLE.std(0), rtol=1e-5)
    flat = MappedFeatures(TABLE, np.zeros(20, "f4"), np.ones(20, "f4"), False)
    lead, known = flat.leading_directions(4), main_directions(TABLE, 4, 0)
    # The same space: each direction is a combination of the known ones.
    cosines = np.linalg.svd(lead.T @ known, compute_uv=False)
    np.testing.assert_allclose(cosines[:2], 1, atol=1e-3)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_rows_of_zeros_are_not_measured(kind):
    """They stay zero, and the others are scaled as if they were not there."""
    blank = np.arange(0, 300, 3)
    raw = TABLE.astype(kind)
    raw[blank] = 0
    seen = np.delete(raw, blank, axis=0)
    shift, scale = _standard(raw.astype("f4"), True)
    np.testing.assert_allclose(shift, seen.astype("f8").mean(0), rtol=1e-5)
    np.testing.assert_allclose(1 / scale, seen.astype("f8").std(0), rtol=1e-4)
    moments, count = column_moments(raw, True)
    np.testing.assert_allclose(moments, (shift, 1 / scale), rtol=1e-4)
    assert count == len(seen)
    whole = _scale_dense(raw.astype("f4"), "standard", shift, scale, True)
    assert not whole[blank].any()
    assert np.delete(whole, blank, axis=0).any(axis=1).all()
    mapped = inputs._mapped(raw, "standard", shift, scale, True)
    np.testing.assert_allclose(mapped.to_tensor(), whole, atol=1e-6)
    np.testing.assert_allclose(mapped.rows(np.arange(300)), whole, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "skips"),
    [
        (lambda x: x, True),
        (lambda x: x[:, :7], False),  # a few columns may well all be zero
        (lambda x: np.round(np.abs(x)), False),  # and so may counts
    ],
)
def test_zeros_are_values_where_they_may_have_been_measured(change, skips):
    from dataclasses import replace

    raw = TABLE.copy()
    raw[::3] = 0
    graph = replace(TRUTH.graph, features=change(raw))
    fitted, held, _ = fit_inputs(graph, InputConfig(scaling="standard"), 0)
    assert fitted.skips_blank is skips
    assert bool(held.features[::3].any()) is not skips
    # A saved map reads a graph as the fit did; an older one counted zeros.
    again = FeatureMap.from_state(fitted.state(), fitted.scaling)
    assert torch.equal(again.apply(graph).features, held.features)
    older = {name: a for name, a in fitted.state().items() if name != "inputs.skips_blank"}
    assert FeatureMap.from_state(older, fitted.scaling).apply(graph).features[::3].any()


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_fit_on_a_store_leaves_large_tables_on_disk(kind, tmp_path, monkeypatch):
    from dataclasses import replace

    graph = replace(TRUTH.graph, features=TABLE.astype(kind))
    opened = open_store(write_store(graph, tmp_path / "store"))
    monkeypatch.setattr(inputs, "KEPT_BYTES", 0)
    _, held, _ = fit_inputs(opened, InputConfig(), 0)
    assert np.shares_memory(held.features.raw, opened.features)
    settings = {"train.batch": "sampled", "train.epochs": 20, "train.batch_size": 64}
    result = fit_graph(opened, small_config(settings)).result
    monkeypatch.undo()
    kept = fit_graph(graph, small_config(settings)).result
    from sklearn.metrics import normalized_mutual_info_score

    for found in (result, kept):
        assert normalized_mutual_info_score(TRUTH.levels[0], found.groups[0]) > 0.8


def test_released_pages_are_read_again(tmp_path):
    opened = open_store(write_store(TRUTH.graph, tmp_path / "store"))
    before = opened.features.copy()
    inputs_before = TABLE.copy()
    release(opened.features)
    release(TABLE)  # not mapped: stays as it is
    np.testing.assert_array_equal(opened.features, before)
    np.testing.assert_array_equal(TABLE, inputs_before)


def test_a_lent_buffer_comes_back_only_after_its_last_reader():
    lender = Buffers(2)
    first = lender.take(3, 4)
    place = first.ctypes.data
    tensor, view = torch.from_numpy(first)[1:], first[:, 1][::2]
    del first
    other = lender.take(3, 4)
    assert other.ctypes.data != place
    del tensor
    assert lender.take(3, 4).ctypes.data != place
    del view
    again = lender.take(2, 6)
    assert again.ctypes.data == place
    assert again.shape == (2, 6)
    assert again.flags.writeable
    assert all(lender.take(count, 7).ctypes.data % 64 == 0 for count in range(1, 40))
    assert lender.take(0, 5).shape == (0, 5)


def test_gathered_rows_are_those_of_the_table(monkeypatch):
    monkeypatch.setattr("graphham.graph.mapped_features._FEW", 3)
    rng = np.random.default_rng(0)
    for width in (0, 1, 16, 37):
        table = torch.from_numpy(rng.standard_normal((50, width)).astype("f4"))
        for count in (0, 2, 3, 400):
            rows = rng.integers(0, 50, count)
            assert torch.equal(gather_rows(table, rows), table[torch.from_numpy(rows)])
    double = torch.eye(4, dtype=torch.float64)
    assert torch.equal(gather_rows(double, np.array([3, 1, 1, 0])), double[[3, 1, 1, 0]])


def test_dropout_in_place_drops_the_same_entries():
    x = torch.randn(70, 31, generator=torch.Generator().manual_seed(0))
    wanted = dropout(x.clone(), 0.3, Draws(5))
    held = x.clone()
    found = dropout(held, 0.3, Draws(5), in_place=True)
    assert found.data_ptr() == held.data_ptr()
    assert torch.equal(found, wanted)
    assert 0.2 < float((found == 0).float().mean()) < 0.4
