"""Compiled loops over memberships of which every node keeps only its few largest.

``groups`` and ``shares`` are ``(num_nodes, width)``, largest share first; a share of 0 ends a row.
"""

from __future__ import annotations

import numpy as np

from graphham.system.jit import Array, jit


@jit
def gather(
    indptr: Array, indices: Array, weights: Array, groups: Array, shares: Array, around: Array
) -> None:
    """Sum the memberships of every node's neighbours."""
    for row in range(len(around)):
        for at in range(indptr[row], indptr[row + 1]):
            node = indices[at]
            for slot in range(groups.shape[1]):
                share = shares[node, slot]
                if share == 0:
                    break
                around[row, groups[node, slot]] += weights[at] * share


@jit
def add_links(around: Array, groups: Array, shares: Array, table: Array) -> None:
    """Add every link to the cells of its ends' groups, from what :func:`gather` summed."""
    for i in range(len(groups)):
        for a in range(groups.shape[1]):
            if shares[i, a] == 0:
                break
            row, share = table[groups[i, a]], shares[i, a]
            for k in range(around.shape[1]):
                row[k] += share * around[i, k]


@jit
def add_nodes(
    groups: Array,
    shares: Array,
    x: Array,
    has: Array,
    sizes: Array,
    seen: Array,
    sums: Array,
    shared: Array,
) -> float:
    """Add up nodes and features per group; return the entropy, shared out over pairs of groups."""
    entropy = 0.0
    for i in range(len(groups)):
        for a in range(groups.shape[1]):
            share = np.float64(shares[i, a])
            if share == 0:
                break
            k = groups[i, a]
            sizes[k] += share
            seen[k] += share * has[i]
            entropy -= share * np.log(share)
            for r in range(x.shape[1]):
                sums[k, r] += share * x[i, r]
            for b in range(a + 1, groups.shape[1]):
                other = np.float64(shares[i, b])
                if other == 0:
                    break
                both = share + other
                left = both * np.log(both) - share * np.log(share) - other * np.log(other)
                shared[k, groups[i, b]] += left
    return entropy


@jit
def keep_largest(logits: Array, groups: Array, shares: Array) -> None:
    """Turn log-odds into memberships of the few likeliest groups, largest first."""
    width, count = groups.shape[1], logits.shape[1]
    for i in range(len(logits)):
        filled = 0
        for k in range(count):
            value = logits[i, k]
            if filled == width and value <= logits[i, groups[i, width - 1]]:
                continue
            at = filled if filled < width else width - 1
            while at > 0 and logits[i, groups[i, at - 1]] < value:
                groups[i, at] = groups[i, at - 1]
                at -= 1
            groups[i, at] = k
            filled = min(filled + 1, width)
        total = np.float32(0.0)
        for a in range(width):
            share = np.float32(0.0)
            if a < filled:
                share = np.float32(np.exp(logits[i, groups[i, a]] - logits[i, groups[i, 0]]))
            else:
                groups[i, a] = 0
            # Traces would cost every sum over links as much as real memberships do.
            shares[i, a] = share if share > 1e-3 else np.float32(0.0)
            total += shares[i, a]
        for a in range(width):
            shares[i, a] /= total


@jit
def regroup(groups: Array, shares: Array, parents: Array) -> None:
    """Replace groups by their parents, and order what comes together by share."""
    width = groups.shape[1]
    for i in range(len(groups)):
        filled = 0
        for a in range(width):
            share, parent = shares[i, a], parents[groups[i, a]]
            if share == 0:
                break
            at = 0
            while at < filled and groups[i, at] != parent:
                at += 1
            if at == filled:
                groups[i, at], shares[i, at] = parent, np.float32(0.0)
                filled += 1
            shares[i, at] += share
            while at > 0 and shares[i, at - 1] < shares[i, at]:
                kept, parent = shares[i, at], groups[i, at]
                shares[i, at], groups[i, at] = shares[i, at - 1], groups[i, at - 1]
                shares[i, at - 1], groups[i, at - 1] = kept, parent
                at -= 1
        for a in range(filled, width):
            groups[i, a], shares[i, a] = 0, np.float32(0.0)
