"""Settings with nothing left open, and the facts about a graph that open ones are decided by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from graphham.config.settings import (
    InputConfig,
    LossConfig,
    ModelConfig,
    RunConfig,
    TrainConfig,
    make_config,
)
from graphham.errors import InputError

Scaling = Literal["none", "row", "tfidf", "standard"]

# Share of equal labels among linked nodes (with its error) from which neighbours are trusted.
_AGREEMENT = 0.6
# Nodes up to which group attention reads features: columns and unfused loops take their room.
_MOST_ALIKE = 50_000

# What runs did that were written before these settings existed.
_BEFORE: dict[str, dict[str, Any]] = {
    "inputs": {"link_rows": False},
    "model": {"class_groups": True},
    "loss": {"doubt_teacher": False},
    "train": {"settle": 0.0, "epoch_steps": 0},
}


@dataclass(frozen=True)
class GraphFacts:
    """What has to be known of a graph and its labels before a fit is settled.

    Args:
        num_nodes: Number of nodes.
        num_stored: Stored links; one without a direction is stored both ways.
        num_features: Feature columns, 0 without features.
        num_feature_values: Stored values of sparse features.
        is_sparse: Whether features are sparse.
        scaling: The scaling that suits the features.
        words_per_node: How many words the nodes have on average that have any, where features are
            words: sparse, or counts of which most are zero. 0 for measured numbers.
        num_classes: Number of label values, 0 without labels.
        is_multi: Whether a node may carry several labels.
        has_few_labels: Whether labels to train on are so few that more has to come from elsewhere.
        labels_per_class: Labels to train on, mean over the classes.
        agreement: Share of the links between labelled nodes that join equal labels; one where too
            few links tell.
        agreement_error: Standard error of that share.
        own_features_help: Whether a node's own features beside its neighbours' predict the
            validation labels better.
        neighbors_tell: Whether who a node's neighbours are predicts labels better than what they
            are like, or is all that is known.
        links_tell: Whether links say anything of the classes: linked nodes' labels depend on each
            other, or neighbours' features help.
        is_directed: Whether links have a direction.
        found_groups: Groups per level that the graph itself suggests; ``None`` where nobody looked.
        free_memory: Bytes that this process can still take; ``None`` where nobody says.
    """

    num_nodes: int
    num_stored: int
    num_features: int = 0
    num_feature_values: int = 0
    is_sparse: bool = False
    scaling: Scaling = "none"
    words_per_node: float = 0.0
    num_classes: int = 0
    is_multi: bool = False
    has_few_labels: bool = False
    labels_per_class: float = 0.0
    agreement: float = 1.0
    agreement_error: float = 0.0
    own_features_help: bool = False
    neighbors_tell: bool = False
    links_tell: bool = True
    is_directed: bool = False
    found_groups: tuple[int, ...] | None = None
    free_memory: int | None = None

    @property
    def neighbors_agree(self) -> bool:
        """Whether linked nodes mostly have equal labels, as far as can be told."""
        return self.agreement + self.agreement_error >= _AGREEMENT


class ResolvedInputs(InputConfig):
    """Inputs with nothing left open."""

    scaling: Scaling
    link_rows: bool


class ResolvedModel(ModelConfig):
    """The network with nothing left open."""

    class_steps: int
    class_groups: bool
    residual: bool
    init: Literal["svd", "glorot"]


class ResolvedLoss(LossConfig):
    """The objective with nothing left open."""

    context_weight: float
    context_table: Literal["inductive", "factored", "full"]
    teacher_weight: float
    doubt_teacher: bool


class ResolvedTrain(TrainConfig):
    """Training with nothing left open."""

    epochs: int
    settle: float
    epoch_steps: int
    batch: Literal["full", "sampled"]
    batch_size: int
    lr: float
    weight_decay: float
    feature_dropout: float
    dropout: float
    edge_dropout: float


class ResolvedConfig(RunConfig):
    """Everything a run depends on besides the graph: no value is absent, none is ``"auto"``."""

    groups: tuple[int, ...]
    inputs: ResolvedInputs
    model: ResolvedModel
    loss: ResolvedLoss
    train: ResolvedTrain

    def likeness_dim(self, num_nodes: int, is_structural: bool) -> int:
        """Return how many columns of own features group attention reads beside memberships.

        Args:
            num_nodes: Nodes of the training graph.
            is_structural: Whether the features were made from links, which the groups know already.
        """
        model = self.model
        is_pair = model.membership_input == "block" and model.group_score == "pair"
        # How much likeness counts is learnt from links, which the ablation does not look at.
        reads = is_pair and model.group_links and not is_structural
        return self.inputs.group_dim if reads and num_nodes <= _MOST_ALIKE else 0


def read_resolved(values: Mapping[str, Any]) -> ResolvedConfig:
    """Read what ``config.toml`` of a run holds.

    Args:
        values: Its nested values; what it says about the graph is no setting.

    Raises:
        InputError: A setting is unknown, has a bad value or is still open.
    """
    dumped = make_config(values).model_dump()
    for section, older in _BEFORE.items():
        dumped[section] |= {k: v for k, v in older.items() if dumped[section][k] is None}
    try:
        return ResolvedConfig.model_validate(dumped)
    except ValidationError as error:
        name = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InputError(
            f"the config of a finished run leaves nothing open, but this one does not say what "
            f"{name} was; fit the graph anew"
        ) from None
