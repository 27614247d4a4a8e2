"""Assignments of a batch's sources in one pass, against the same in single steps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.assignments import assign_sources


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape).astype("f4"))


@given(
    st.integers(0, 120),
    st.integers(1, 30),
    st.integers(1, 40),
    st.floats(0, 1),
    st.booleans(),
    st.sets(st.sampled_from(["z", "lead", "affinity", "terms"]), min_size=1),
    st.integers(1, 5),
    st.integers(0, 2**63 - 2),
)
def test_one_pass_equals_the_single_steps(
    nodes, width, groups, share, by_length, asked, columns, key
):
    rng = np.random.default_rng(nodes + width)
    x, start = drawn(rng, nodes, width), drawn(rng, width, groups)
    lead = int(share * nodes)
    shapes = {"z": (nodes, groups), "terms": (nodes, columns)}
    factors = {name: drawn(rng, *shapes.get(name, (lead, groups))) for name in sorted(asked)}
    factor = drawn(rng, groups, columns) if "terms" in asked else None
    found = []
    for how in ("compiled", "reference"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHHAM_OPS", how)
            vectors = start.clone().requires_grad_()
            mixed = None if factor is None else factor.clone().requires_grad_()
            out = assign_sources(x, vectors, 0.7, key, lead, by_length, mixed)
            torch.stack([(getattr(out, n) * f).sum() for n, f in factors.items()]).sum().backward()
        assert (out.terms is None) == (mixed is None)
        held = [*out[:3], vectors.grad]
        if mixed is not None:
            held += [out.terms, mixed.grad]
        found.append([one.detach() for one in held])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-5)


def test_a_lost_number_shows_in_its_row_alone():
    x = torch.ones(40, 5)
    x[17, 2] = torch.nan
    z = assign_sources(x, torch.ones(5, 3), 1.0, 0, 0).z
    assert z[17].isnan().all()
    assert not z[torch.arange(40) != 17].isnan().any()


def test_no_more_nodes_lead_than_there_are():
    vectors = torch.ones(4, 3, requires_grad=True)
    out = assign_sources(torch.ones(5, 4), vectors, 1.0, 0, 9)
    assert len(out.lead) == len(out.affinity) == 5
    out.affinity.sum().backward()
    assert torch.equal(vectors.grad, torch.full((4, 3), 5.0))


def test_a_vector_of_length_zero_belongs_to_all_groups_alike():
    z = assign_sources(torch.zeros(2000, 4), torch.ones(4, 2), 1.0, 3, 0, by_length=True).z
    assert float(z.mean()) == pytest.approx(0.5, abs=0.03)
