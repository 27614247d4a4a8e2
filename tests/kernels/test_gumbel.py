"""The compiled relaxed draw: its noise, its numbers and its gradient against plain torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.gumbel import draw_key, gumbel_softmax, keyed_gumbel
from graphham.sampling.random_stream import Draws


@given(
    st.integers(0, 200),
    st.integers(1, 40),
    st.sampled_from([0.3, 1.0, 2.5]),
    st.sampled_from([1.0, 60.0]),
    st.integers(0, 2**63 - 2),
)
def test_the_compiled_draw_equals_plain_torch(nodes, groups, tau, spread, key):
    rng = np.random.default_rng(nodes + groups)
    start = torch.from_numpy(spread * rng.standard_normal((nodes, groups)).astype("f4"))
    factor = torch.from_numpy(rng.standard_normal((nodes, groups)).astype("f4"))
    found = []
    for how in ("compiled", "reference"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHHAM_OPS", how)
            u = start.clone().requires_grad_()
            z = gumbel_softmax(u, tau, key)
            (z * factor).sum().backward()
        found.append((z.detach(), u.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-6)


def test_noise_follows_the_gumbel_law_and_its_key():
    noise = keyed_gumbel((1000, 200), 17).double().flatten()
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, abs=0.03)
    for quantile in (0.01, 0.25, 0.5, 0.9, 0.999):
        below = float((noise < -math.log(-math.log(quantile))).double().mean())
        assert below == pytest.approx(quantile, abs=4 * math.sqrt(quantile / len(noise)))
    for other in (keyed_gumbel((1000, 200), 18), keyed_gumbel((1000, 200), 17 + 2**32)):
        held = other.double().flatten()
        assert abs(float(torch.corrcoef(torch.stack([noise, held]))[0, 1])) < 0.01
    for lag in (1, 16, 200):
        pair = torch.stack([noise[:-lag], noise[lag:]])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.01


def test_noise_of_an_entry_does_not_depend_on_the_number_of_rows():
    few, many = keyed_gumbel((70, 6), 5), keyed_gumbel((300, 6), 5)
    assert torch.equal(few, many[:70])


def test_a_key_moves_the_generator_on():
    generator = torch.Generator().manual_seed(0)
    assert len({draw_key(generator) for _ in range(10)}) == 10
    # Both kinds of stream give the same keys, so plain torch repeats a compiled run.
    assert draw_key(torch.Generator().manual_seed(3)) == draw_key(Draws(3))


def test_a_diverged_affinity_shows():
    u = torch.zeros(3, 4)
    u[1, 2] = torch.nan
    z = gumbel_softmax(u, 1.0, 0)
    assert z[1].isnan().all()
    assert not z[[0, 2]].isnan().any()
