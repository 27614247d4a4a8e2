"""Edge operations as plain Python loops: slow, obvious, and what the fast ones must equal."""

import math

import numpy as np


def edges(block):
    """Yield (edge, target, source) in order."""
    for i in range(block.num_targets):
        for e in range(int(block.indptr[i]), int(block.indptr[i + 1])):
            yield e, i, int(block.indices[e])


def edge_scores(left, right, block, slope):
    out = np.zeros((block.num_edges, left.shape[1]))
    for e, i, j in edges(block):
        for m in range(left.shape[1]):
            raw = float(left[i, m]) + float(right[j, m])
            out[e, m] = raw if raw > 0 else slope * raw
    return out


def edge_dot(left, right, block):
    out = np.zeros(block.num_edges)
    for e, i, j in edges(block):
        out[e] = sum(float(a) * float(b) for a, b in zip(left[i], right[j], strict=True))
    return out


def edge_softmax(logits, block):
    out = np.zeros(logits.shape)
    for i in range(block.num_targets):
        row = range(int(block.indptr[i]), int(block.indptr[i + 1]))
        for m in range(logits.shape[1]):
            if not row:
                continue
            top = max(float(logits[e, m]) for e in row)
            powers = {e: math.exp(float(logits[e, m]) - top) for e in row}
            for e in row:
                out[e, m] = powers[e] / sum(powers.values())
    return out


def aggregate(weights, values, block):
    out = np.zeros((block.num_targets, *values.shape[1:]))
    for e, i, j in edges(block):
        for m in range(values.shape[1]):
            out[i, m] += float(weights[e, m]) * values[j, m].astype(np.float64)
    return out


def mean_aggregate(values, block):
    out = np.zeros((block.num_targets, values.shape[1]))
    total = np.zeros(block.num_targets)
    for e, i, j in edges(block):
        weight = 1.0 if block.weights is None else float(block.weights[e])
        out[i] += weight * values[j].astype(np.float64)
        total[i] += weight
    return out / np.where(total > 0, total, 1.0)[:, None]
