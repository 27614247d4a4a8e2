"""The processes of a job: their ranges, and what one process alone exchanges with itself."""

import numpy as np
import pytest
import torch

from graphham.parallel.ranks import ALONE, LostPeerError, Ranks, is_job, joined


@pytest.mark.parametrize(("total", "count"), [(0, 3), (5, 2), (100, 3), (101, 7), (1000, 4)])
def test_ranges_cover_all_rows_once_in_whole_spans(total, count):
    bounds = Ranks(0, count).bounds(total, span=10)
    assert bounds[0] == 0
    assert bounds[-1] == total
    assert bounds == sorted(bounds)
    assert all(b % 10 == 0 for b in bounds[:-1] if b != total)
    sizes = np.diff(bounds)
    assert sizes.max() - sizes.min() <= 20


def test_a_process_alone_gets_back_what_it_gives():
    values = torch.arange(6.0).view(3, 2)
    assert ALONE.is_first
    assert torch.equal(ALONE.gather(values)[0], values)
    assert torch.equal(ALONE.exchange([values])[0], values)
    assert torch.equal(ALONE.swap([values]), values)
    assert ALONE.collect({"a": [1, None]}) == [{"a": [1, None]}]
    assert ALONE.tell("said") == "said"
    shared = values.numpy().copy()
    ALONE.share_rows(shared)
    np.testing.assert_array_equal(ALONE.share_array(shared), values)
    assert ALONE.gathering(values).is_done()


def test_a_broken_connection_is_one_sentence():
    with pytest.raises(LostPeerError, match="process 1 of 3 stops"), Ranks(1, 3).talking():
        raise RuntimeError("connection reset by peer")


def test_only_the_environment_makes_a_job(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not is_job()
    with joined() as ranks:
        assert ranks is ALONE
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert is_job()
