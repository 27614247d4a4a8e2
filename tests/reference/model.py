"""The equations of the model as plain Python loops over nodes, groups and heads, in float64.

Names follow the paper's: u affinity, z assignment, e and f node and group scores, alpha and lambda
their softmax, w the weight of an edge, Q a context vector. Nothing here is shared with the package.
"""

import math

import numpy as np


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def norm(a):
    return math.sqrt(dot(a, a))


def leaky(value, slope):
    return value if value > 0 else slope * value


def log_sigmoid(value):
    return -math.log1p(math.exp(-value)) if value > -30 else value


def softmax(values):
    top = max(values)
    powers = [math.exp(v - top) for v in values]
    return [p / sum(powers) for p in powers]


def affinity(states, groups, scale=None, cosine=True):
    """E1: one number per node and group."""
    out = np.zeros((len(states), len(groups)))
    for i, state in enumerate(states):
        for k, group in enumerate(groups):
            value = dot(state, group)
            if cosine:
                value /= max(norm(state), 1e-12) * max(norm(group), 1e-12)
            out[i, k] = value * scale
    return out


def assignment(u, tau, noise, how="log"):
    """E2 and E4; without noise the mean membership."""
    out = np.zeros(u.shape)
    for i in range(len(u)):
        pi = softmax(u[i])
        if noise is None:
            out[i] = pi
            continue
        start = pi if how == "literal" else [math.log(p) for p in pi]
        out[i] = softmax([(s + g) / tau for s, g in zip(start, noise[i], strict=True)])
    return out


def neighbors(block):
    """Per target the list of (edge, source)."""
    return [
        [(e, int(block.indices[e])) for e in range(int(block.indptr[i]), int(block.indptr[i + 1]))]
        for i in range(block.num_targets)
    ]


def attention_layer(
    x,
    block,
    z,
    W,
    a,
    *,
    score="pair",
    B=None,
    Phi=None,
    a_group=None,
    product="renormalised",
    slope=0.2,
    shortcut=None,
):
    """E5-E9. Returns h, alpha, lambda and w.

    Args:
        x: (sources, in). W: (heads, in, out). a: (2, heads, out). z: (sources, K).
        B: (K, K) for the pair score. Phi: (K, in) and a_group: (2, heads, out) for the additive.
    """
    heads, _, width = W.shape
    h = np.zeros((block.num_targets, width))
    shape = (block.num_edges, heads)
    alpha, lam, weight = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for m in range(heads):
        p = [np.array([dot(row, W[m][:, d]) for d in range(width)]) for row in x]
        if score == "additive":
            psi = [np.array([dot(phi, W[m][:, d]) for d in range(width)]) for phi in Phi]
            r = [sum(z[i, k] * psi[k] for k in range(len(psi))) for i in range(len(x))]
        for i, row in enumerate(neighbors(block)):
            if not row:
                continue
            e, f = [], []
            for _, j in row:
                e.append(leaky(dot(a[0, m], p[i]) + dot(a[1, m], p[j]), slope))
                if score == "pair":
                    f.append(
                        sum(
                            z[i, k] * B[k, q] * z[j, q]
                            for k in range(len(B))
                            for q in range(len(B))
                        )
                    )
                elif score == "additive":
                    f.append(leaky(dot(a_group[0, m], r[i]) + dot(a_group[1, m], r[j]), slope))
                else:
                    f.append(0.0)
            a_i, l_i = softmax(e), softmax(f)
            w_i = [left * right for left, right in zip(a_i, l_i, strict=True)]
            if product == "renormalised" or score == "none":
                w_i = [w / sum(w_i) for w in w_i]
            if block.weights is not None:
                total = sum(w_i)
                w_i = [w * float(block.weights[k]) for w, (k, _) in zip(w_i, row, strict=True)]
                w_i = [w * total / sum(w_i) for w in w_i]
            for (k, j), one, other, w in zip(row, a_i, l_i, w_i, strict=True):
                alpha[k, m], lam[k, m], weight[k, m] = one, other, w
                h[i] += w * p[j] / heads
    if shortcut is not None:
        for i in range(block.num_targets):
            h[i] += [dot(x[i], shortcut[:, d]) for d in range(width)]
    return h, alpha, lam, weight


def context_vector(j, z_i, table=None, group=None, states=None, full=False):
    """Q_{j, z_i}: the context vector of node j in the light of the target's assignment (A2)."""
    if full:
        count = len(z_i)
        return sum(z_i[k] * table[j * count + k] for k in range(count))
    vector = states[j] if table is None else table[j]
    if group is None:
        return np.array(vector)
    return sum(z_i[k] * (vector * (1 + group[k])) for k in range(len(z_i)))


def context_score(i, j, h, z, **forms):
    """E10."""
    return dot(h[i], context_vector(j, z[i], states=h, **forms))


def context_loss(h, z, anchors, positives, negatives, mix="vector", **forms):
    """E11, the mean over positive pairs plus the mean over negative ones."""
    total = 0.0
    for nodes, sign in ((positives, 1), (negatives, -1)):
        losses = []
        for spot, i in enumerate(anchors):
            for j in nodes[spot]:
                if j < 0:
                    continue
                if mix == "vector":
                    losses.append(-log_sigmoid(sign * context_score(i, j, h, z, **forms)))
                else:
                    one_hot = np.eye(z.shape[1])
                    losses.append(
                        sum(
                            z[i, k]
                            * -log_sigmoid(
                                sign * dot(h[i], context_vector(j, one_hot[k], states=h, **forms))
                            )
                            for k in range(z.shape[1])
                        )
                    )
        if losses:
            total += sum(losses) / len(losses)
    return total


def contrastive(anchors, positives, temperature, sets):
    """Each anchor picks its positive among those of its set. ``sets`` lists lists of pairs."""
    total, count = 0.0, 0
    for members in sets:
        for i in members:
            scores = [
                dot(anchors[i], positives[j])
                / (max(norm(anchors[i]), 1e-12) * max(norm(positives[j]), 1e-12))
                / temperature
                for j in members
            ]
            total -= math.log(softmax(scores)[members.index(i)])
            count += 1
    return total / count


def violation_mass(lower, upper):
    """E12 over all ordered pairs of distinct nodes."""
    total = 0.0
    for i in range(len(lower)):
        for j in range(len(lower)):
            if i != j:
                total += dot(lower[i], lower[j]) * (1 - dot(upper[i], upper[j]))
    return total


def pair_sums(z):
    """Sum of same(i, j) over ordered pairs of distinct nodes."""
    return sum(dot(z[i], z[j]) for i in range(len(z)) for j in range(len(z)) if i != j)


def kl(mean, prior):
    return sum(m * math.log(m / p) for m, p in zip(mean, prior, strict=True) if m > 0)
