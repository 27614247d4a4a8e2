"""Attentions are computed once, and of a large graph only on request."""

import json
from pathlib import Path

import numpy as np
import pytest

from graphham.explore.attention_columns import AttentionCache
from graphham.explore.queries import Explorer
from graphham.report import RunView


def test_attentions_of_a_large_graph_wait_for_a_request(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphham.explore import attention_columns as attention

    quick = Explorer(small_run).node(3)["layers"]
    monkeypatch.setattr(attention, "QUICK_NODES", 100)
    explorer = Explorer(small_run)
    explorer.prepare()
    assert not explorer.attention.is_ready
    assert explorer.node(3, wait=False)["pending"]
    assert explorer.attention.join(timeout=60)
    assert explorer.node(3, wait=False)["layers"] == quick
    monkeypatch.setattr(attention, "_MEMORY_SHARE", 0.0)
    why = Explorer(small_run).overview()["attentionNote"]
    assert "240 nodes" in why
    assert "GiB" in why


def test_an_unready_attention_does_not_delay_the_response(small_run: Path) -> None:
    explorer = Explorer(small_run)
    first = explorer.node(3, wait=False)
    assert first["pending"]
    assert first["layers"] == []
    explorer.prepare()
    assert not explorer.node(3, wait=False)["pending"]


def test_every_node_shares_out_all_of_its_attention(small_run: Path) -> None:
    view = RunView.of(small_run)
    layers = AttentionCache(view).layers()
    assert len(layers) == view.num_levels
    for layer in layers:
        for attention in (layer.node, layer.group):
            sums = np.add.reduceat(attention, layer.indptr[:-1])
            np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_without_graph_or_model_the_reason_is_given(own_run: Path) -> None:
    summary = json.loads((own_run / "summary.json").read_text())
    summary.pop("model")
    view = RunView.of(own_run)
    view.run.__dict__["summary"] = summary
    assert "has no attentions" in (AttentionCache(view).unavailable_reason or "")
    view.__dict__["graph"] = None
    cache = AttentionCache(view)
    assert "--graph" in (cache.unavailable_reason or "")
    assert cache.is_ready
    assert cache.layers() == []
