"""Memory that processes of one machine share."""

import os
from pathlib import Path

import pytest

from graphham.parallel.ranks import Ranks


def test_shared_memory_is_one_array_and_absent_where_the_system_has_none(monkeypatch):
    from graphham.parallel import shared_memory as shared

    if not hasattr(os, "memfd_create"):
        pytest.skip("this system has no memory without a name")
    opened = Path("/proc/self/fd")
    before = len(list(opened.iterdir()))
    held = shared.shared_tensor(Ranks(one_host=True), 3, 5)
    assert held.shape == (3, 5)
    assert not held.any()
    held[1] = 2.0
    assert held.sum() == 10.0
    assert len(list(opened.iterdir())) <= before + 1  # at most the map keeps one
    assert shared.shared_tensor(Ranks(), 3) is None

    def refuse(name):
        raise OSError

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert shared.shared_tensor(Ranks(one_host=True), 3) is None
