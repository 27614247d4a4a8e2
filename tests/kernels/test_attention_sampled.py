"""The loops for few edges per source, as in a sampled batch, against the reference."""

import pytest

from tests.kernels.test_attention_full import check_loops


@pytest.mark.parametrize("kind", ["none", "pair", "additive", "table"])
@pytest.mark.parametrize(("heads", "shared"), [(1, False), (3, False), (4, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loops_equal_plain_torch(kind, heads, shared, weighted, monkeypatch):
    check_loops("sampled", kind, heads, shared, weighted, monkeypatch)
