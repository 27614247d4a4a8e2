"""How much memory training takes, estimated before it starts."""

from __future__ import annotations

from graphham.config.resolved import GraphFacts, ResolvedConfig

# What Python, torch and the compiled kernels take before a graph is there.
_PROGRAM_BYTES = 350 << 20


def estimate_memory(config: ResolvedConfig, facts: GraphFacts) -> int:
    """Return the estimated peak bytes of training, constants measured on real fits.

    Args:
        config: Resolved settings.
        facts: The size of the graph.
    """
    n, stored, groups = facts.num_nodes, facts.num_stored, config.groups
    heads, dim = config.model.heads, config.layer_dims[0]
    width = facts.num_features or config.inputs.structural_dim
    data = 24 * facts.num_feature_values if facts.is_sparse else 12 * n * width
    if config.inputs.link_rows:
        sides = 2 if facts.is_directed else 1
        data += 24 * sides * stored + (0 if facts.is_sparse else 24 * n * width)
        # Weights, gradients and both of Adam's moments of every column.
        data += 16 * n * sides * heads * dim * (2 if config.model.residual else 1)
    data += 12 * stored + 12 * n * (config.inputs.group_dim + sum(groups))
    if config.loss.context_table != "inductive":
        each = sum(groups) if config.loss.context_table == "full" else len(groups)
        data += 4 * n * dim * each
    per_node = len(groups) * (40 * heads * dim + 24 * dim) + 60 * sum(groups)
    per_edge = len(groups) * (24 * heads + 24)
    if config.train.batch == "sampled":
        reach = config.train.batch_size
        edges = 0
        for layer in range(len(groups)):
            edges += reach * config.fanout(layer)
            reach = min(n, reach * (1 + config.fanout(layer)))
        working = reach * per_node + min(edges, stored * len(groups)) * per_edge
        # The read-out at the end takes all nodes at once, without gradients.
        working = max(working, n * len(groups) * (12 * heads * dim) + stored * 24 * heads)
    else:
        working = n * per_node + (stored + n) * per_edge
    return _PROGRAM_BYTES + data + working
