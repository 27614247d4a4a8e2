"""The pair posterior against plain loops over every possibility."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.kernels import mixture_loops as loops
from graphham.system.jit import frozen

STEPS = np.arange(1, 11) * 0.05
MIDDLE = 0.25


def make_case(count, groups, seed, weighted=False, features=False):
    rng = np.random.default_rng(seed)
    a = sp.random(count, count, 0.3, random_state=seed, format="csr")
    a = sp.csr_matrix(((a + a.T) > 0).astype(np.float32))  # a few loops stay in
    a.sort_indices()
    weights = np.empty(0, np.float32)
    if weighted:
        both = rng.uniform(0.2, 2, a.shape)
        weights = ((both + both.T) / 2)[a.nonzero()].astype(np.float32)
    table = rng.uniform(0.1, 3, (groups, groups))
    table = ((table + table.T) / 2 + 2 * np.eye(groups)).astype(np.float32)
    single = rng.dirichlet(np.full(groups, 0.4), count) * 0.6
    pairs = rng.integers(0, groups, (count, loops.KEPT, 2)).astype(np.int32)
    mass = np.zeros((count, loops.KEPT, loops.RANGES, 2), np.float32)
    mass[:, 0, :, 0] = 0.4 / loops.RANGES
    mass[:, 0, :, 1] = [0.1, 0.25, 0.4]
    pi = single.copy()
    for i in range(count):
        for part, t in mass[i, 0]:
            pi[i, pairs[i, 0, 0]] += part * (1 - t)
            pi[i, pairs[i, 0, 1]] += part * t
    said = rng.normal(0, 1, (count if features else 0, groups))
    return {
        "links": (frozen(a.indptr, np.int64), frozen(a.indices), frozen(weights)),
        "odds": frozen(pi @ table, np.float32),
        "table": frozen(table),
        "kept": (frozen(single, np.float32), frozen(pairs), frozen(mass)),
        "features": frozen(said, np.float32),
        "prior": rng.dirichlet(np.full(groups, 3.0)),
    }


def run(case, share, ancestors, start=0, stop=None, outputs=None):
    count, groups = case["odds"].shape
    out = outputs or {
        "memberships": np.empty((count, groups), np.float32),
        "single": np.empty((count, groups), np.float32),
        "pairs": np.empty((count, loops.KEPT, 2), np.int32),
        "mass": np.empty((count, loops.KEPT, loops.RANGES, 2), np.float32),
        "mixed": np.empty((len(ancestors), count), np.float32),
        "second": np.empty((len(ancestors), count), np.float32),
    }
    loops.weigh_pairs(
        *case["links"],
        case["odds"],
        case["table"],
        *case["kept"],
        case["features"],
        case["prior"],
        share,
        STEPS,
        MIDDLE,
        frozen(ancestors),
        start,
        count if stop is None else stop,
        *out.values(),
    )
    return out


def without(case, j, odds):
    """j's possibilities, each divided by how well it explains a link to something of these odds."""
    single, pairs, mass = case["kept"]
    groups = len(odds)
    said = np.zeros(groups)
    for k in range(groups):
        said[k] += single[j, k] / odds[k]
    for c in range(loops.KEPT):
        for part, t in mass[j, c].astype(float):
            shares = np.zeros(groups)
            shares[pairs[j, c, 0]] += 1 - t
            shares[pairs[j, c, 1]] += t
            said += part * shares / (shares @ odds)
    return said / said.sum()


def speak(case, said):
    """The odds of a link to somebody who says this; shares up to 1e-3 are an average group."""
    strong = said > 1e-3
    return said[strong] @ case["table"][strong].astype(float) + said[~strong].sum()


def reference(case, i, share, ancestors):
    """Every possibility with its probability: (mass, shares, lead, second, t)."""
    indptr, indices, weights = case["links"]
    prior = case["prior"]
    groups = len(prior)
    rows = []
    for e in range(indptr[i], indptr[i + 1]):
        j = indices[e]
        if j != i:
            mine = without(case, i, case["odds"][j].astype(float))
            heard = speak(case, without(case, j, speak(case, mine)))
            rows.append((heard, float(weights[e]) if len(weights) else 1.0))

    def fit(shares):
        value = math.log(shares @ np.exp(case["features"][i].astype(float)))
        return value + sum(w * math.log(shares @ u) for u, w in rows)

    def fit_links(shares):
        return sum(w * math.log(shares @ u) for u, w in rows)

    likelihood = fit if len(case["features"]) else fit_links
    unit = np.eye(groups)
    pure = [math.log(prior[a]) + likelihood(unit[a]) for a in range(groups)]
    leads = np.argsort([-value for value in pure], kind="stable")[: loops.CANDIDATES]
    found = []
    for a in range(groups):
        is_lead = a in leads and groups > 1
        found.append((pure[a] + (math.log(1 - share) if is_lead else 0), unit[a], a, -1, 0.0))
        if not is_lead:
            continue
        base = {b: math.log(prior[a] * prior[b] / (1 - prior[a]) * share) for b in range(groups)}

        def shares(b, t, a=a):
            return (1 - t) * unit[a] + t * unit[b]

        others = [b for b in range(groups) if b != a]
        score = {b: base[b] + likelihood(shares(b, MIDDLE)) for b in others}
        best = sorted(others, key=lambda b: -score[b])[: loops.CANDIDATES]
        for b in others:
            if b not in best:
                found.append((score[b], shares(b, MIDDLE), a, b, MIDDLE))
                continue
            for t in STEPS:
                value = base[b] - math.log(len(STEPS)) + likelihood(shares(b, t))
                found.append((value, shares(b, t), a, b, t))
    top = max(f[0] for f in found)
    masses = np.array([math.exp(f[0] - top) for f in found])
    masses /= masses.sum()
    pi = sum(m * f[1] for m, f in zip(masses, found, strict=True))
    mixed, second = np.zeros(len(ancestors)), np.zeros(len(ancestors))
    for m, (_, _, a, b, t) in zip(masses, found, strict=True):
        for level, above in enumerate(ancestors):
            if b >= 0 and above[a] != above[b]:
                mixed[level] += m
                second[level] += m * t
            if b < 0 and a not in leads and groups > 1:
                away = sum(prior[c] for c in range(groups) if above[c] != above[a])
                mixed[level] += m * share * away / (1 - prior[a])
    return pi, mixed, second


@pytest.mark.parametrize("groups", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(("weighted", "features"), [(False, False), (True, True)])
def test_the_posterior_is_that_of_plain_loops(groups, weighted, features) -> None:
    case = make_case(14, groups, groups, weighted, features)
    ancestors = np.stack([np.arange(groups), np.arange(groups) // 2])
    out = run(case, 0.2, ancestors)
    for i in range(14):
        pi, mixed, second = reference(case, i, 0.2, ancestors)
        np.testing.assert_allclose(out["memberships"][i], pi, atol=2e-5)
        np.testing.assert_allclose(out["mixed"][:, i], mixed, atol=2e-5)
        np.testing.assert_allclose(out["second"][:, i], second, atol=2e-5)


def test_what_a_node_keeps_adds_up_to_its_membership() -> None:
    case = make_case(20, 6, 3)
    out = run(case, 0.4, np.arange(6)[None])
    kept = out["single"].astype(float)
    for i in range(20):
        for c in range(loops.KEPT):
            for part, t in out["mass"][i, c]:
                kept[i, out["pairs"][i, c, 0]] += part * (1 - t)
                kept[i, out["pairs"][i, c, 1]] += part * t
    np.testing.assert_allclose(kept, out["memberships"], atol=1e-6)
    assert out["mass"][..., 0].sum() > 0.1


def test_rows_in_ranges_give_the_same_bits() -> None:
    case = make_case(30, 6, 5)
    ancestors = np.arange(6)[None]
    whole, parts = run(case, 0.2, ancestors), None
    for start, stop in ((17, 30), (0, 4), (4, 17)):
        parts = run(case, 0.2, ancestors, start, stop, parts)
    for name, values in whole.items():
        np.testing.assert_array_equal(values, parts[name], err_msg=name)


@pytest.mark.parametrize("weighted", [False, True])
def test_links_are_shared_out_as_by_plain_loops(weighted) -> None:
    case = make_case(16, 4, 2, weighted)
    indptr, indices, weights = case["links"]
    table, odds = case["table"].astype(float), case["odds"].astype(float)
    expected = np.zeros((4, 4))
    for i in range(16):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if i == j:
                continue
            here, there = without(case, i, odds[j]), without(case, j, odds[i])
            here, there = (
                without(case, i, speak(case, there)),
                without(case, j, speak(case, here)),
            )
            both = here[:, None] * table * there
            expected += both / both.sum() * (weights[e] if weighted else 1)
    counts = np.zeros((4, 4))
    loops.share_links(*case["links"], case["odds"], case["table"], *case["kept"], 1, counts)
    np.testing.assert_allclose(counts, expected, rtol=1e-2, atol=1e-2)
    some = np.zeros((4, 4))
    loops.share_links(*case["links"], case["odds"], case["table"], *case["kept"], 3, some)
    ends = np.repeat(np.arange(16), np.diff(indptr))
    seen = (ends < indices) & (ends % 3 == 0)
    # Every link that is seen stands for three, at both of its ends.
    assert some.sum() == pytest.approx(6 * float(weights[seen].sum() if weighted else sum(seen)))
    is_link = ends != indices
    assert counts.sum() == pytest.approx(
        float(weights[is_link].sum() if weighted else sum(is_link))
    )


def test_sums_over_links_leave_loops_out() -> None:
    indptr, indices = frozen([0, 2, 3, 3], np.int64), frozen([0, 1, 0], np.int32)
    out = np.empty(3)
    loops.add_over_links(indptr, indices, frozen([5.0, 2.0, 2.0], np.float32), np.arange(3.0), out)
    np.testing.assert_array_equal(out, [2, 0, 0])
