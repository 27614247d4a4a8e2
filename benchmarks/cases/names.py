"""Names of sides that several modules ask for; imports nothing, so that the page needs no torch."""

from __future__ import annotations

GAT = "GAT, torch_geometric"
GATCONV = "GATConv"
WITH_GROUPS = {
    "pair": "graphham, group scores by pair",
    "additive": "graphham, additive group scores",
}
