"""The GraphHAM network: memberships, attention, contexts, losses.

Importing this package loads the network and no more: compiled kernels come with their first use,
and fitting inputs or seeding groups are modules of their own.
"""

from graphham.model.attention import AttentionWeights, MembershipAttention
from graphham.model.context import ContextDecoder, ContextTable
from graphham.model.feature_rows import FeatureRows
from graphham.model.network import Batch, GraphHAMNet, LayerPass, Output
from graphham.model.network_settings import NetworkSettings

__all__ = [
    "AttentionWeights",
    "Batch",
    "ContextDecoder",
    "ContextTable",
    "FeatureRows",
    "GraphHAMNet",
    "LayerPass",
    "MembershipAttention",
    "NetworkSettings",
    "Output",
]
