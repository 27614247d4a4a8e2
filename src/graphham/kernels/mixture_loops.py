"""Compiled loops over links for mixed memberships: one thread, one row at a time.

A row is written by its own turn of the loop and reads only what came from the round before, so
rows may be handed to several threads in ranges and give the same bits. Nothing here is as large as
links times groups: what a neighbour says without the node that listens is made anew for each link
from what it keeps of its posterior, a row of groups and a few pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphham.system.jit import Array, inlined, jit, log_positive

CANDIDATES = 4
# Pairs that a node keeps, each with its second share in three ranges.
KEPT, RANGES = 3, 3
# Products of this many rows stay far inside what a float64 can hold; a logarithm for each would
# cost more than everything else together.
_TOGETHER = 12
# Groups with less than this part of a node's membership speak together, as an average group: the
# odds that a link table gives to one are 1.
_FAINT = np.float32(1e-3)
_LEAST = np.float32(1e-12)


@inlined
def _without(j: Any, odds: Array, single: Array, pairs: Array, mass: Array, out: Array) -> None:
    """Write j's membership without the evidence of one link, from whose other end come ``odds``.

    Every possibility that j keeps is divided by how well it explains the link.
    """
    width = len(odds)
    total = np.float32(0.0)
    for k in range(width):
        out[k] = single[j, k] / odds[k]
        total += out[k]
    for c in range(pairs.shape[1]):
        a, b = pairs[j, c, 0], pairs[j, c, 1]
        for r in range(mass.shape[2]):
            if mass[j, c, r, 0] > 0:
                t = mass[j, c, r, 1]
                part = mass[j, c, r, 0] / ((np.float32(1.0) - t) * odds[a] + t * odds[b])
                out[a] += (np.float32(1.0) - t) * part
                out[b] += t * part
                total += part
    share = np.float32(1.0) / total
    for k in range(width):
        out[k] *= share


@inlined
def _speak(membership: Array, table: Array, out: Array) -> None:
    """Write the odds of a link to a node of this membership from each group."""
    width = len(membership)
    faint = _LEAST
    for k in range(width):
        if membership[k] <= _FAINT:
            faint += membership[k]
    for k in range(width):
        out[k] = faint
    for k in range(width):
        part = membership[k]
        if part > _FAINT:
            for m in range(width):
                out[m] += part * table[k, m]


@jit
def weigh_pairs(
    indptr: Array,
    indices: Array,
    weights: Array,
    odds: Array,
    table: Array,
    single: Array,
    pairs: Array,
    mass: Array,
    features: Array,
    prior: Array,
    mixed_share: float,
    steps: Array,
    middle: float,
    ancestors: Array,
    start: int,
    stop: int,
    memberships: Array,
    next_single: Array,
    next_pairs: Array,
    next_mass: Array,
    mixed: Array,
    second_share: Array,
) -> None:
    """Write the posterior of the rows ``start`` to ``stop`` over one group or a pair of groups.

    Args:
        indptr: Where each row's links begin.
        indices: The other end of each link; a link to itself is no evidence.
        weights: How often each link counts; empty for once.
        odds: ``(n, K)`` positive: how much likelier a link to this node is from each group.
        table: ``(K, K)`` float32 link table, symmetric.
        single: ``(n, K)`` what every node keeps of its posterior beside pairs.
        pairs: ``(n, KEPT, 2)`` the pairs that it keeps.
        mass: ``(n, KEPT, RANGES, 2)`` probability and mean second share of each range of each.
        features: ``(n, K)`` log likelihoods of the nodes' own features, taken as one draw from one
            of the two groups; no rows for none.
        prior: ``(K,)`` positive shares of the groups, float64.
        mixed_share: Prior probability of a pair.
        steps: Second shares that a candidate pair is tried with, ascending.
        middle: The one second share that every other pair is tried with.
        ancestors: ``(levels, K)`` group of each level above each group; row 0 is ``0..K-1``.
        start: First row.
        stop: Row behind the last.
        memberships: ``(n, K)`` float32 output, posterior means.
        next_single: Output like ``single``.
        next_pairs: Output like ``pairs``.
        next_mass: Output like ``mass``.
        mixed: ``(levels, n)`` float32 output, probability that a node is in two groups.
        second_share: ``(levels, n)`` float32 output, expected share of the second group.
    """
    width, num_levels, num_steps = odds.shape[1], len(ancestors), len(steps)
    leads = min(CANDIDATES, width) if width > 1 else 0
    seconds = min(CANDIDATES, width - 1)
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    heard = np.empty((longest, width), dtype=np.float32)
    often = np.empty(longest, dtype=np.float32)
    said = np.empty(width, dtype=np.float32)
    asked = np.empty(width, dtype=np.float32)
    log_prior = np.log(prior)
    pure, product = np.empty(width), np.empty(width)
    lead = np.empty(max(leads, 1), dtype=np.int64)
    is_lead = np.empty(width, dtype=np.bool_)
    is_second = np.empty(width, dtype=np.bool_)
    screen = np.empty((max(leads, 1), width))
    chosen = np.empty((max(leads, 1), max(seconds, 1)), dtype=np.int64)
    fine = np.empty((max(leads, 1), max(seconds, 1), num_steps))
    product_fine = np.empty((max(seconds, 1), num_steps))
    share, left = np.empty(width), np.empty(width)
    apart, halves = np.empty(num_levels), np.empty(num_levels)
    crossing = np.zeros((num_levels, width))
    for level in range(num_levels):
        for a in range(width):
            for b in range(width):
                if ancestors[level, a] != ancestors[level, b]:
                    crossing[level, a] += prior[b] / max(1.0 - prior[a], 1e-300)
    has_features, is_weighted = len(features) > 0, len(weights) > 0
    log_steps = math.log(num_steps)
    for i in range(start, stop):
        # What each neighbour says of the groups, had it not heard this node.
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j == i:
                continue
            # It heard this node without itself, so that is what has to be taken out of it.
            _without(i, odds[j], single, pairs, mass, said)
            _speak(said, table, asked)
            _without(j, asked, single, pairs, mass, said)
            _speak(said, table, heard[count])
            if is_weighted:
                often[count] = weights[e]
            count += 1
        # One group: its share, what the features say, and the odds of every link.
        for k in range(width):
            pure[k] = log_prior[k] + (features[i, k] if has_features else 0.0)
            product[k] = 1.0
        for x in range(count):
            if is_weighted:
                for k in range(width):
                    pure[k] += often[x] * log_positive(heard[x, k])
                continue
            for k in range(width):
                product[k] *= heard[x, k]
            if x % _TOGETHER == _TOGETHER - 1 or x == count - 1:
                for k in range(width):
                    pure[k] += math.log(product[k])
                    product[k] = 1.0
        best = -np.inf
        for k in range(width):
            best = max(best, pure[k])
            is_lead[k] = False
        for n in range(leads):
            a = -1
            for k in range(width):
                if not is_lead[k] and (a < 0 or pure[k] > pure[a]):
                    a = k
            is_lead[a] = True
            lead[n] = a
            # Every second group at one share in between tells which ones deserve a closer look.
            rest = math.log(max(1.0 - prior[a], 1e-300))
            for b in range(width):
                screen[n, b] = log_prior[a] + log_prior[b] - rest
                product[b] = 1.0
                is_second[b] = b == a
                if has_features:
                    one, two = features[i, a], features[i, b]
                    top = max(one, two)
                    both = (1.0 - middle) * math.exp(one - top) + middle * math.exp(two - top)
                    screen[n, b] += top + math.log(both)
            for x in range(count):
                own = (1.0 - middle) * heard[x, a]
                if is_weighted:
                    for b in range(width):
                        both32 = np.float32(own + middle * heard[x, b])
                        screen[n, b] += often[x] * log_positive(both32)
                    continue
                for b in range(width):
                    product[b] *= own + middle * heard[x, b]
                if x % _TOGETHER == _TOGETHER - 1 or x == count - 1:
                    for b in range(width):
                        screen[n, b] += math.log(product[b])
                        product[b] = 1.0
            for c in range(seconds):
                b = -1
                for k in range(width):
                    if not is_second[k] and (b < 0 or screen[n, k] > screen[n, b]):
                        b = k
                is_second[b] = True
                chosen[n, c] = b
                for s in range(num_steps):
                    fine[n, c, s] = log_prior[a] + log_prior[b] - rest - log_steps
                    product_fine[c, s] = 1.0
                    if has_features:
                        one, two = features[i, a], features[i, b]
                        top = max(one, two)
                        both = (1.0 - steps[s]) * math.exp(one - top)
                        both += steps[s] * math.exp(two - top)
                        fine[n, c, s] += top + math.log(both)
            for x in range(count):
                for c in range(seconds):
                    base, more = heard[x, a], heard[x, chosen[n, c]] - heard[x, a]
                    if is_weighted:
                        for s in range(num_steps):
                            both32 = np.float32(base + steps[s] * more)
                            fine[n, c, s] += often[x] * log_positive(both32)
                    else:
                        for s in range(num_steps):
                            product_fine[c, s] *= base + steps[s] * more
                if not is_weighted and (x % _TOGETHER == _TOGETHER - 1 or x == count - 1):
                    for c in range(seconds):
                        for s in range(num_steps):
                            fine[n, c, s] += math.log(product_fine[c, s])
                            product_fine[c, s] = 1.0
            screen[n, a] = -np.inf
            for c in range(seconds):
                screen[n, chosen[n, c]] = -np.inf
                for s in range(num_steps):
                    best = max(best, fine[n, c, s])
            for b in range(width):
                best = max(best, screen[n, b])
        # From logarithms to probabilities.
        for level in range(num_levels):
            apart[level], halves[level] = 0.0, 0.0
        total = 0.0
        for k in range(width):
            pure[k] = math.exp(pure[k] - best)
            share[k] = pure[k]
            total += pure[k]
            if is_lead[k]:
                share[k] *= 1.0 - mixed_share
                total -= pure[k] * mixed_share
            elif width > 1:
                # Pairs led by an unlikely group are not looked at; their mass stays with it.
                for level in range(num_levels):
                    apart[level] += mixed_share * pure[k] * crossing[level, k]
        for n in range(leads):
            a = lead[n]
            for b in range(width):
                amount, second = 0.0, 0.0
                if screen[n, b] > -np.inf:
                    amount = mixed_share * math.exp(screen[n, b] - best)
                    second = amount * middle
                for c in range(seconds):
                    if chosen[n, c] == b:
                        for s in range(num_steps):
                            fine[n, c, s] = mixed_share * math.exp(fine[n, c, s] - best)
                            amount += fine[n, c, s]
                            second += fine[n, c, s] * steps[s]
                share[a] += amount - second
                share[b] += second
                total += amount
                for level in range(num_levels):
                    if ancestors[level, a] != ancestors[level, b]:
                        apart[level] += amount
                        halves[level] += second
        for k in range(width):
            share[k] /= total
            left[k] = share[k]
            memberships[i, k] = share[k]
        for level in range(num_levels):
            mixed[level, i] = min(apart[level] / total, 1.0)
            second_share[level, i] = min(halves[level] / total, 0.5)
        # The likeliest pairs are kept as they are, so that a listener's part can be taken out.
        for kept in range(KEPT):
            top_n, top_c, top_mass = -1, -1, 0.0
            for n in range(leads):
                for c in range(seconds):
                    if chosen[n, c] >= 0:
                        amount = 0.0
                        for s in range(num_steps):
                            amount += fine[n, c, s]
                        if amount > top_mass:
                            top_n, top_c, top_mass = n, c, amount
            for r in range(RANGES):
                next_mass[i, kept, r, 0] = 0.0
                next_mass[i, kept, r, 1] = 0.0
            next_pairs[i, kept, 0] = 0
            next_pairs[i, kept, 1] = 0
            if top_n < 0:
                continue
            a, b = lead[top_n], chosen[top_n, top_c]
            next_pairs[i, kept, 0] = a
            next_pairs[i, kept, 1] = b
            for r in range(RANGES):
                amount, second = 0.0, 0.0
                for s in range(r * num_steps // RANGES, (r + 1) * num_steps // RANGES):
                    amount += fine[top_n, top_c, s] / total
                    second += fine[top_n, top_c, s] * steps[s] / total
                if amount > 1e-9:
                    next_mass[i, kept, r, 0] = amount
                    next_mass[i, kept, r, 1] = second / amount
                    left[a] -= amount - second
                    left[b] -= second
            chosen[top_n, top_c] = -1
        for k in range(width):
            next_single[i, k] = max(left[k], 0.0)


@jit
def share_links(
    indptr: Array,
    indices: Array,
    weights: Array,
    odds: Array,
    table: Array,
    single: Array,
    pairs: Array,
    mass: Array,
    every: int,
    counts: Array,
) -> None:
    """Add up the links that the two ends' memberships and the link table give to pairs of groups.

    Each end is taken without the evidence of the link: counting with memberships that follow the
    link sharpens the table round by round, until everything looks mixed.

    Args:
        indptr: Where each row's links begin.
        indices: The other end of each link; every link is stored at both ends.
        weights: How often each link counts; empty for once.
        odds: ``(n, K)`` positive: how much likelier a link to this node is from each group.
        table: ``(K, K)`` float32 link table, symmetric.
        single: As for :func:`weigh_pairs`.
        pairs: As for :func:`weigh_pairs`.
        mass: As for :func:`weigh_pairs`.
        every: Only the links of every so manieth row are added up, each that many times.
        counts: ``(K, K)`` float64 output, added to.
    """
    width = odds.shape[1]
    here, there = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    asked_i, asked_j = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    groups = np.empty(width, dtype=np.int64)
    for i in range(0, len(indptr) - 1, every):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            _without(i, odds[j], single, pairs, mass, here)
            _without(j, odds[i], single, pairs, mass, there)
            _speak(here, table, asked_j)
            _speak(there, table, asked_i)
            _without(i, asked_i, single, pairs, mass, here)
            _without(j, asked_j, single, pairs, mass, there)
            used = 0
            for k in range(width):
                if there[k] > _FAINT:
                    groups[used] = k
                    used += 1
            fit = 0.0
            for k in range(width):
                if here[k] > _FAINT:
                    for m in range(used):
                        fit += here[k] * table[k, groups[m]] * there[groups[m]]
            part = every * (weights[e] if len(weights) else 1.0) / max(fit, 1e-30)
            for k in range(width):
                if here[k] > _FAINT:
                    for m in range(used):
                        both = part * here[k] * table[k, groups[m]] * there[groups[m]]
                        counts[k, groups[m]] += both
                        counts[groups[m], k] += both


@jit
def add_over_links(
    indptr: Array, indices: Array, weights: Array, values: Array, out: Array
) -> None:
    """Write the weighted sum of the neighbours' values, links to itself left out."""
    for i in range(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                total += values[indices[e]] * (weights[e] if len(weights) else 1.0)
        out[i] = total


@jit
def link_surprise(
    indptr: Array, indices: Array, memberships: Array, odds: Array, first: Any, out: Array
) -> None:
    """Write ``-ln(pi_i . odds_j)`` for the links of the rows given.

    Args:
        indptr: Where each row's links begin, for the rows of one chunk.
        indices: The other end of each link of the whole graph.
        memberships: ``(n, K)`` float32.
        odds: ``(n, K)`` float32, what each node is to a link from each group.
        first: Row that ``indptr`` begins with.
        out: Float32 output, one for each link of the chunk.
    """
    width = memberships.shape[1]
    begin = indptr[0]
    for r in range(len(indptr) - 1):
        i = first + r
        for e in range(indptr[r], indptr[r + 1]):
            fit = 0.0
            for k in range(width):
                fit += memberships[i, k] * odds[indices[e], k]
            out[e - begin] = -math.log(fit)
