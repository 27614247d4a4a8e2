"""Every setting as a user gives it: what it means, which values it takes, what may stay open.

A :class:`RunConfig` is frozen and validated; an open value (``None`` or ``"auto"``) is decided by
:func:`graphham.config.resolve.resolve` once the graph is known. Settings come in one order: the
preset, then a TOML file, then flags or keyword arguments. Which of them decide how the paper is
read is listed in ``readings.py``.
"""

from __future__ import annotations

import difflib
import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from graphham.config.presets import merge, preset_settings
from graphham.errors import InputError

Preset = Literal["default", "paper"]
Task = Literal["embed", "classify"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputConfig(_Section):
    """How raw features become the network's input."""

    scaling: Literal["auto", "none", "row", "tfidf", "standard"] = Field(
        "auto",
        description="auto: TF-IDF for sparse counts, unit rows for other sparse features, "
        "standardised columns for dense ones",
    )
    group_dim: int = Field(
        64, ge=1, le=1024, description="main directions of the features that groups look at"
    )
    link_rows: bool | None = Field(
        None,
        description="a node's links as further inputs, one column per node, so that who the "
        "neighbours are can matter; when absent classify asks the training labels, embed and "
        "split stores go without",
    )
    structural_dim: int = Field(
        128, ge=2, le=1024, description="width of the features made for a graph that has none"
    )


class ModelConfig(_Section):
    """The network: which reading of the paper each part follows."""

    heads: int = Field(1, ge=1, le=64, description="attention heads M, averaged (E9)")
    activation: Literal["elu", "relu", "identity"] = Field(
        "elu", description="non-linearity of every layer but the last, which is linear"
    )
    class_activation: Literal["relu", "identity"] = Field(
        "relu", description="what the classifier reads: the positive part of the states, or all"
    )
    class_steps: int | None = Field(
        None,
        ge=0,
        le=100,
        description="steps over which class scores are averaged along edges, a tenth staying at "
        "home each time; when absent 10 where fewer than a fifth of the nodes have labels to train "
        "on and neighbours mostly agree, else 0. Sampled steps train without",
    )
    class_groups: bool | None = Field(
        None,
        description="the classifier reads memberships beside the states; when absent only where "
        "neighbours often have other labels and links tell anything of the classes: where they "
        "agree, groups repeat less exactly what the states say",
    )
    self_edge: bool = Field(True, description="a node attends to itself too")
    residual: bool | None = Field(
        None,
        description="add a linear path around each attention layer; when absent, classify asks "
        "the validation labels and embed goes without",
    )
    init: Literal["svd", "glorot"] | None = Field(
        None,
        description="first layer starts from the features' principal directions, or random; when "
        "absent random for classify unless labels are few",
    )

    membership_input: Literal["block", "state"] = Field(
        "block",
        description="where memberships come from: a nested block model of links and features, or "
        "the layer's input as in E1",
    )
    group_links: bool = Field(
        True, description="block: links are evidence for groups through the table of group pairs"
    )
    affinity: Literal["cosine", "dot"] = Field(
        "cosine", description="u_ik: scaled cosine, or the dot product with a learned scale"
    )
    affinity_scale: float = Field(8.0, gt=0, description="scale of the cosine affinity")
    group_init: Literal["nodes", "random"] = Field(
        "nodes", description="group vectors start at the states of random nodes or at random"
    )
    assignment: Literal["log", "literal", "mean"] = Field(
        "log", description="Gumbel noise on log pi, on pi as printed, or no noise at all"
    )
    dirichlet: bool = Field(False, description="draw pi from a Dirichlet first, as in E3")
    straight_through: bool = Field(
        False, description="one-hot assignments in decoder and constraints, soft gradients"
    )
    tau: float = Field(1.0, gt=0, description="Gumbel temperature at the start")
    tau_end: float = Field(0.5, gt=0, description="Gumbel temperature at the end (exponential)")

    group_score: Literal["pair", "additive", "none"] = Field(
        "pair",
        description="group attention: a score per pair of groups, read from the block model or "
        "learned, the paper's additive score (E7), or none (the minus-lambda ablation)",
    )
    separate_attention: bool = Field(
        False, description="own attention vector for the additive group score instead of a"
    )
    product: Literal["renormalised", "literal"] = Field(
        "renormalised", description="w = softmax(e + f), or lambda * alpha as printed"
    )


class LossConfig(_Section):
    """What is minimised, and how much each part weighs."""

    context: Literal["infonce", "skipgram"] = Field(
        "infonce", description="contrast against the batch by cosine, or sampled negatives (E11)"
    )
    context_weight: float | None = Field(
        None,
        ge=0,
        description="weight of the context losses; when absent 1; for classify 0 where neighbours "
        "often have other labels, else at most 0.2 unless labels are few, and the less the more "
        "labels a class there are",
    )
    context_table: Literal["auto", "inductive", "factored", "full"] = Field(
        "auto",
        description="Q: h_j * (1 + g_k) (inductive), c_j * (1 + g_k) (factored), or a vector per "
        "node and group (full); auto: inductive for infonce, full or factored by size",
    )
    group_context: bool = Field(
        True, description="Q depends on the target's group; false is the minus-Q ablation"
    )
    mix: Literal["vector", "loss"] = Field(
        "vector", description="a relaxed z mixes context vectors or per-group losses"
    )
    scope: Literal["cumulative", "exact", "all"] = Field(
        "cumulative", description="layer l predicts nodes within l steps, at l steps, or all"
    )
    walks: int = Field(1, ge=1, le=1000, description="walks per node and epoch")
    must_link_weight: float = Field(
        5.0,
        ge=0,
        description="gamma (E13); the groups of a block model nest exactly unless both are 0",
    )
    cannot_link_weight: float = Field(5.0, ge=0, description="beta (E13)")
    violation: Literal["chance", "pairs", "set"] = Field(
        "chance",
        description="violation mass divided by what independent levels would give, by the number "
        "of pairs, or by the size of its own set",
    )
    balance_weight: float = Field(0.2, ge=0, description="keeps groups from emptying")
    class_weight: float = Field(1.0, ge=0, description="eta, weight of the class loss (E16)")
    teacher_weight: float | None = Field(
        None,
        ge=0,
        description="asks nodes without a label to agree with what their groups say of the "
        "classes; when absent for classify at most 3, the less the more labels a class there are, "
        "and 0 where links say nothing of the classes, else 0",
    )
    doubt_teacher: bool | None = Field(
        None,
        description="trains a second network that groups do not teach and contexts hardly, and "
        "keeps it if it predicts the validation labels better by more than their standard error; "
        "when absent for classify with few labels, one a node, if both weights are absent and "
        "every step sees the whole graph",
    )


class TrainConfig(_Section):
    """How the parameters are found."""

    epochs: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="passes over the nodes; when absent at most 80 (classify 150, with few labels "
        "300) whole-graph steps, or enough sampled ones for about 6,000 steps; embed beyond 50,000 "
        "nodes at most 512 steps",
    )
    batch: Literal["auto", "full", "sampled"] = Field(
        "auto",
        description="whole graph per step, or sampled neighbourhoods; auto asks memory, and "
        "samples beyond 50,000 nodes where embed leaves the epochs open",
    )
    batch_size: int | None = Field(
        None,
        ge=1,
        description="targets per sampled step; when absent 512, or fewer where memory is short; "
        "64 beyond 50,000 nodes where embed leaves the epochs open",
    )
    settle: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="embed: stop when an eighth of the epochs lowers the loss, which is of fresh "
        "walks every time, by less than this share; 0 trains on. When absent 0.003, or 0 if the "
        "epochs are given",
    )
    epoch_steps: int | None = Field(
        None,
        ge=0,
        description="sampled steps after which an epoch ends even if nodes are left, so that a "
        "graph of millions of nodes is reported and saved more often and need not be passed "
        "through; 0 takes all nodes. When absent 256, or 0 if the epochs are given",
    )
    anchors: int = Field(
        8192, ge=2, description="targets that carry the context loss in a full-graph step"
    )
    fanouts: tuple[int, ...] = Field(
        (25, 25), description="neighbours sampled per layer, first layer first"
    )
    lr: float | None = Field(
        None,
        gt=0,
        description="Adam learning rate; when absent 0.01, for classify 0.02 unless labels are few",
    )
    table_lr: float = Field(0.1, gt=0, description="row-wise Adagrad rate of context tables")
    weight_decay: float | None = Field(
        None,
        ge=0,
        description="on W and the classifier, never on groups; when absent 0 for embed, by graph "
        "size for classify",
    )
    feature_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share of input values dropped; when absent by graph "
        "size where features are words, as far as a node keeps a few; of measured numbers none for "
        "classify and at most half for embed",
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="share of hidden values dropped; by size when absent"
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="keep a running average of the weights, this much of it old every epoch; what "
        "is validated and kept is the average. 0 switches it off",
    )
    edge_dropout: float | None = Field(
        None, ge=0, lt=1, description="share of edges dropped per step; by size when absent"
    )
    validation_share: float = Field(
        0.1, ge=0, lt=1, description="share of known labels kept for early stopping (classify)"
    )
    validation_edges: float = Field(
        0.0, ge=0, lt=0.5, description="share of edges kept from training for early stopping"
    )
    patience: int = Field(
        100, ge=1, description="epochs without a better validation score before stopping"
    )
    evaluate_every: int = Field(2, ge=1, description="epochs between two validations")
    checkpoint_every: float = Field(
        30.0, ge=0, description="seconds between checkpoints; the most a kill can lose"
    )
    workers: int = Field(1, ge=0, le=256, description="threads that prepare batches ahead")
    shards: int = Field(
        1,
        ge=1,
        le=65536,
        description="parts a sampled batch is cut into; their gradients are added up in order, so "
        "any number of processes up to this one gives the same numbers",
    )
    memory_gib: float = Field(
        0.0,
        ge=0,
        description="full-graph training is chosen when its estimate stays below this; 0 asks the "
        "machine what it can give and refuses a fit that cannot fit into that",
    )


class RunConfig(_Section):
    """Everything a run depends on besides the graph, as far as the user said."""

    preset: Preset = "default"
    task: Task = "embed"
    seed: int = Field(0, ge=0, lt=2**63)
    groups: tuple[int, ...] | None = Field(
        None, description="groups per level, fine to coarse; chosen from the graph when absent"
    )
    groups_from: Literal["settings", "graph"] = Field(
        "settings",
        description="graph: a fit also starts from the groups that a search of the graph finds, as "
        "it does where their number is not given",
    )
    layers: int = Field(2, ge=1, le=16, description="levels when groups are not given")
    dim: int = Field(128, ge=1, le=65536, description="width of the embedding, all layers together")
    device: str = "cpu"
    inputs: InputConfig = InputConfig()
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    train: TrainConfig = TrainConfig()

    @field_validator("groups")
    @classmethod
    def _groups_shrink(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        if not value or min(value) < 1:
            raise ValueError("every level needs at least one group")
        if any(low < high for low, high in itertools.pairwise(value)):
            raise ValueError("levels go from fine to coarse, so the counts must not grow")
        return value

    @model_validator(mode="after")
    def _dim_suffices(self) -> RunConfig:
        if self.dim < self.num_layers:
            raise ValueError(f"dim {self.dim} is too narrow for {self.num_layers} layers")
        return self

    @property
    def num_layers(self) -> int:
        """Number of layers, which is the number of levels."""
        return len(self.groups) if self.groups is not None else self.layers

    @property
    def layer_dims(self) -> tuple[int, ...]:
        """Width of each layer's output; what does not divide evenly goes to the first layers."""
        layers = self.num_layers
        return tuple(self.dim // layers + (layer < self.dim % layers) for layer in range(layers))

    @property
    def is_nested(self) -> bool:
        """Whether the constraints between levels (E13) are on."""
        return self.loss.must_link_weight > 0 or self.loss.cannot_link_weight > 0

    def fanout(self, layer: int) -> int:
        """Neighbours sampled by ``layer`` (from 0); the last given value serves deeper layers."""
        fanouts = self.train.fanouts
        return fanouts[min(layer, len(fanouts) - 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested values; those of a resolved config are its ``config.toml``."""
        return self.model_dump(mode="json", exclude_none=True)


def make_config(*sources: Mapping[str, Any], preset: str | None = None) -> RunConfig:
    """Build a config from a preset and further settings, later ones winning.

    Args:
        *sources: Nested or dotted settings, such as ``{"train": {"epochs": 5}}`` or
            ``{"train.epochs": 5, "seed": 1}``; ``None`` values are skipped.
        preset: Preset to start from; otherwise the last source that names one decides.

    Raises:
        InputError: An unknown name (the nearest valid one is suggested) or a bad value.
    """
    given: dict[str, Any] = {}
    for source in sources:
        given = merge(given, _nested(source))
    if isinstance(given.get("graph"), Mapping):
        # The config.toml of a run also says which graph it was fitted to; that is no setting.
        del given["graph"]
    chosen = preset or given.get("preset", "default")
    if chosen not in ("default", "paper"):
        raise InputError(f"there is no preset {chosen!r}; choose default or paper")
    task = given.get("task", "embed")
    if task not in ("embed", "classify"):
        raise InputError(f"there is no task {task!r}; choose embed or classify")
    given["preset"] = chosen
    try:
        return RunConfig.model_validate(merge(preset_settings(chosen, task), given))
    except ValidationError as error:
        raise InputError(_explain(error)) from None


def read_config(path: str | Path) -> dict[str, Any]:
    """Read settings from a TOML file."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise InputError(f"the settings file {path} cannot be read; check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the settings file {path} is not valid TOML: {error}") from None


def setting_names() -> list[str]:
    """Return the dotted name of every setting."""
    names: list[str] = []
    for name, info in RunConfig.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, _Section):
            names += [f"{name}.{inner}" for inner in section.model_fields]
        else:
            names.append(name)
    return names


def _nested(source: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in source.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            out = merge(out, {name: _nested(value)})
            continue
        *path, last = str(name).split(".")
        leaf: dict[str, Any] = {last: value}
        for part in reversed(path):
            leaf = {part: leaf}
        out = merge(out, leaf)
    return out


def _explain(error: ValidationError) -> str:
    """Turn the first complaint of the validator into one sentence with the setting's name."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, setting_names(), n=1, cutoff=0.5)
        last = [n for n in setting_names() if n.split(".")[-1] == name.split(".")[-1]]
        hint = last or near
        return f"there is no setting {name!r}" + (f"; did you mean {hint[0]!r}?" if hint else "")
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return (
        f"setting {name or 'groups'} cannot be {first['input']!r}: {message}" if name else message
    )
