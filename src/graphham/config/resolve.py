"""From the settings a user gave to settings with nothing left open.

:func:`resolve` is pure: all it has to know about graph and labels are a few numbers. Its answer is
what ``config.toml`` of a run holds, and resolving that again leaves it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from graphham.config.memory import estimate_memory, memory_room
from graphham.config.resolved import GraphFacts, ResolvedConfig
from graphham.config.settings import RunConfig, TrainConfig
from graphham.errors import InputError

# Sampled steps after which quality stops growing on the graphs we tried; larger graphs pass fewer
# times over their nodes, but a few times each.
_SAMPLED_STEPS = 6000
_FEWEST_PASSES = 4  # where an epoch is one
_EPOCH_STEPS = 256
# Beyond so many nodes an unsupervised step over the whole graph encodes many times the nodes that
# its loss compares. Steps of one contrast set each, with the dropout below, had about the same loss
# at 100,000 nodes in a fifth of the time, but not all of the quality: who wants that gives epochs.
_WHOLE_NODES = 50_000
_LARGE_STEPS = 512
_LARGE_EPOCH_STEPS = 64
_LARGE_BATCH = 64  # targets per shard: one contrast set
# Share of the loss that an eighth of the epochs must win, or training has settled.
_SETTLED = 0.003
# Targets per sampled step: as many as quality was tried with, or fewer where memory is short.
_BATCH_SIZES = (512, 256, 128, 64)
# Full context tables beyond this take more memory than they are worth (A2), or beyond this share of
# what there is.
_FULL_TABLE_BYTES = 256 << 20
_FULL_TABLE_SHARE = 0.125
# Cora, on which rates were chosen; they change with the size of a graph in relation to it.
_TUNED_NODES = 2708
# Children per group: the paper's ratio of 12 to 5, and what served few labels best; the most groups
# chosen for the top level, which is there for an overview; nodes that a chosen group needs.
_CHILDREN = 2.4
_CLASS_CHILDREN = 4.0
_MOST_TOP_GROUPS = 64
_FEWEST_MEMBERS = 8
# Words a node should keep when some are dropped, and the most of measured numbers that are dropped
# without labels: each number says something that no other does.
_FEWEST_WORDS = 3.5
_MEASURED_DROPOUT = 0.5
# Labels a class that what nodes without labels teach is worth: groups, and contexts.
_WORTH_LABELS = 20
CLASSIFY_CONTEXTS = 0.2  # what contexts weigh at most with many labels
_LEAST_TEACHER = 0.02  # weight below which asking many fits of the groups is not worth the time


@dataclass(frozen=True)
class RateBySize:
    """A dropout rate that falls with the logarithm of the graph's size.

    Small graphs overfit their features and links; large ones only lose information. The line runs
    through what worked best on Cora and on graphs of twenty thousand nodes.

    Args:
        small: The rate of graphs up to the size of Cora.
        fall: How much lower it is with each tenfold of nodes.
        least: The rate of the largest graphs.
    """

    small: float
    fall: float
    least: float

    def at(self, num_nodes: int) -> float:
        """Return the rate for a graph of that many nodes."""
        rate = self.small - self.fall * math.log10(num_nodes / _TUNED_NODES)
        return round(min(self.small, max(self.least, rate)), 3)


@dataclass(frozen=True)
class TaskDefaults:
    """What a kind of fit does where the settings leave it open; the fields are settings.

    The values are those of an unsupervised fit: without labels contexts are all there is to learn
    from. They and the tables below were set by trial on Cora and on graphs of about twenty thousand
    nodes; the runs of those trials are not kept.
    """

    feature_dropout: RateBySize = RateBySize(0.8, 0.5, 0.2)
    edge_dropout: RateBySize = RateBySize(0.5, 0.35, 0.1)
    dropout: RateBySize = RateBySize(0.5, 0.0, 0.5)
    weight_decay: float = 0.0
    lr: float = 0.01
    epochs: int = 80
    context_weight: float = 1.0
    init: Literal["svd", "glorot"] = "svd"
    class_steps: int = 0
    teacher_weight: float = 0.0


_EMBED = TaskDefaults()
# The states of many nodes are not learned by heart: with less dropout the loss falls further, also
# where it is measured without any.
_EMBED_LARGE = replace(_EMBED, dropout=RateBySize(0.5, 0.35, 0.1))
# Labels teach and contexts are an aid; validation labels end the longer training early.
_CLASSIFY = TaskDefaults(
    feature_dropout=RateBySize(0.7, 0.7, 0.1),
    edge_dropout=RateBySize(0.3, 0.35, 0.1),
    dropout=RateBySize(0.5, 0.35, 0.1),
    weight_decay=5e-4,
    lr=0.02,
    epochs=150,
    context_weight=CLASSIFY_CONTEXTS,
    teacher_weight=3.0,
    init="glorot",
)
# Where links are inputs, most columns matter to few nodes: dropping them hides what there is to
# learn, and decay has to keep so many weights small. The network then knows more of the links than
# groups could teach it.
_LINKS_ARE_INPUTS = replace(
    _CLASSIFY,
    feature_dropout=RateBySize(0.5, 0.35, 0.1),
    edge_dropout=RateBySize(0.0, 0.0, 0.0),
    dropout=RateBySize(0.2, 0.1, 0.1),
    weight_decay=1e-3,
    teacher_weight=0.0,
)
# Without features most of what can be known of a node is its neighbours' labels.
_LINKS_ARE_ALL = replace(
    _LINKS_ARE_INPUTS, feature_dropout=RateBySize(0.2, 0.1, 0.1), class_steps=10
)
# Contexts teach what few labels cannot; without them and strong penalties the network learns its
# handful of labels by heart.
_FEW_LABELS = TaskDefaults(
    edge_dropout=_CLASSIFY.edge_dropout,
    dropout=RateBySize(0.7, 0.3, 0.3),
    weight_decay=5e-3,
    epochs=300,
    class_steps=10,
    teacher_weight=3.0,
)
# Where neighbours often differ, spreading scores teaches what is wrong.
_FEW_LABELS_NEIGHBORS_DIFFER = replace(_FEW_LABELS, class_steps=0)


def resolve(settings: RunConfig, facts: GraphFacts) -> ResolvedConfig:
    """Decide everything the settings left open.

    Args:
        settings: What the user gave; values given stay as they are.
        facts: What is known of the graph and its labels.

    Raises:
        InputError: The graph and the settings do not fit together.
    """
    if settings.task == "classify" and not facts.num_classes:
        raise InputError("--task classify needs labels; give --labels FILE:column")
    groups = settings.groups or default_groups(settings, facts)
    _check(settings, facts, groups)
    if settings.loss.doubt_teacher and settings.train.shards > 1:
        raise InputError("loss.doubt_teacher needs train.shards = 1; leave it out")
    defaults = task_defaults(settings, facts)
    n, train, rows = facts.num_nodes, settings.train, _has_link_rows(settings, facts)
    is_open = train.epochs is None and settings.preset != "paper"
    is_large = _is_large(settings, facts)
    values = settings.model_dump()
    values |= {"groups": groups, "layers": len(groups)}
    if settings.groups is None and settings.task == "embed" and facts.found_groups is not None:
        values["groups_from"] = "graph"
    _fill(values["inputs"], scaling=facts.scaling, link_rows=rows)
    _fill(
        values["model"],
        residual=settings.task == "classify" and (facts.own_features_help or rows),
        init=defaults.init,
        class_steps=defaults.class_steps if facts.links_tell else 0,
        class_groups=not facts.neighbors_agree and facts.links_tell,
    )
    _fill(
        values["loss"],
        context_weight=_context_weight(defaults, settings, facts),
        teacher_weight=_teacher_weight(defaults, settings, facts),
        context_table=_context_table(settings, facts, groups),
        doubt_teacher=False,
    )
    _fill(
        values["train"],
        lr=defaults.lr,
        feature_dropout=_feature_dropout(defaults.feature_dropout.at(n), settings, facts),
        edge_dropout=defaults.edge_dropout.at(n),
        dropout=defaults.dropout.at(n),
        weight_decay=float(f"{defaults.weight_decay * min(1.0, _TUNED_NODES / n):.2g}"),
        batch="sampled" if train.shards > 1 or is_large else "full",
        batch_size=_LARGE_BATCH * train.shards if is_large else _BATCH_SIZES[0],
        epochs=defaults.epochs,
        settle=_SETTLED if is_open else 0.0,
        epoch_steps=(_LARGE_EPOCH_STEPS if is_large else _EPOCH_STEPS) if is_open else 0,
    )
    _fit_into_memory(train, values, facts)
    if train.epochs is None and values["train"]["batch"] == "sampled":
        each = -(-n // int(values["train"]["batch_size"]))
        cut = int(values["train"]["epoch_steps"])
        steps = _LARGE_STEPS if is_large else _SAMPLED_STEPS
        values["train"]["epochs"] = _sampled_epochs(steps, each, cut, defaults.epochs)
    if settings.loss.doubt_teacher is None:
        # Known only now that the batch is.
        values["loss"]["doubt_teacher"] = _doubts_teacher(settings, facts, values)
    return ResolvedConfig.model_validate(values)


def explain_resolved(settings: RunConfig, facts: GraphFacts) -> tuple[str, ...]:
    """Say in words what :func:`resolve` decides that a user would ask about."""
    notes: list[str] = []
    is_classify = settings.task == "classify"
    if settings.groups is None:
        is_cut = is_classify and not facts.is_multi
        why = f"{facts.num_classes} classes" if is_cut else f"{facts.num_nodes:,} nodes"
        if not is_classify and facts.found_groups is not None:
            why = "what links and features are described by best"
        notes.append(f"groups chosen from {why}; --groups sets them")
    if is_classify and not facts.links_tell and leaves_links_open(settings):
        notes.append("links say nothing of the classes: contexts and groups do not teach them")
    elif is_classify and facts.has_few_labels and facts.neighbors_agree:
        notes.append("few nodes have labels: more rests on contexts, and scores are spread")
    elif is_classify and facts.has_few_labels:
        notes.append(
            f"few nodes have labels, and only {facts.agreement:.0%} of the links between them "
            f"join equal ones: scores are not spread along links"
        )
    if is_classify and settings.model.residual is None and facts.own_features_help:
        notes.append("own features help the validation labels: residual paths are on")
    if settings.inputs.link_rows is None and facts.neighbors_tell:
        notes.append("who the neighbours are tells more than what they are like: links are inputs")
    if not facts.num_features:
        notes.append("the graph has no features; structural ones are made from its links")
    return tuple(notes)


def leaves_links_open(settings: RunConfig) -> bool:
    """Whether anything is left open that depends on what links tell of the classes."""
    model, loss = settings.model, settings.loss
    given = (model.class_steps, model.class_groups, loss.context_weight, loss.teacher_weight)
    return any(value is None for value in given)


def task_defaults(settings: RunConfig, facts: GraphFacts) -> TaskDefaults:
    """Return what the kind of fit does where its settings are open."""
    if settings.task == "embed":
        return _EMBED_LARGE if _is_large(settings, facts) else _EMBED
    if not facts.has_few_labels:
        if not _has_link_rows(settings, facts):
            return _CLASSIFY
        is_all = not facts.num_features and facts.neighbors_agree
        return _LINKS_ARE_ALL if is_all else _LINKS_ARE_INPUTS
    return _FEW_LABELS if facts.neighbors_agree else _FEW_LABELS_NEIGHBORS_DIFFER


def _is_large(settings: RunConfig, facts: GraphFacts) -> bool:
    """Whether a few small steps do: many nodes, no labels, and no vectors of single nodes."""
    is_open = settings.train.epochs is None and settings.loss.context == "infonce"
    return is_open and settings.task == "embed" and facts.num_nodes > _WHOLE_NODES


def _has_link_rows(settings: RunConfig, facts: GraphFacts) -> bool:
    """Whether a node's links are inputs."""
    if settings.inputs.link_rows is not None:
        return settings.inputs.link_rows
    is_open = settings.task == "classify" and settings.model.membership_input == "block"
    return is_open and facts.neighbors_tell


def default_groups(settings: RunConfig, facts: GraphFacts) -> tuple[int, ...]:
    """Choose the number of groups per level.

    With ``classify`` the coarsest level gets one group per class and each finer one four times as
    many, so that classes are cut along the tree. Labels of which a node has several are no such
    parts: then the coarsest level has at most the fourth root of the number of nodes. Otherwise the
    graph itself says how many groups it has; where nobody asked it, about the fourth root of the
    number of nodes and 2.4 times as many (the paper's ratio of 12 to 5) below. Labels must not
    shape an unsupervised result.
    """
    n = facts.num_nodes
    if settings.task == "classify":
        most = round(n**0.25) if facts.is_multi else facts.num_classes
        top = min(facts.num_classes, most)
        return _level_sizes(top, _CLASS_CHILDREN, settings.layers, n)
    if facts.found_groups is not None:
        return facts.found_groups
    return _level_sizes(round(n**0.25), _CHILDREN, settings.layers, n)


def _level_sizes(top: int, ratio: float, levels: int, num_nodes: int) -> tuple[int, ...]:
    """Return groups per level, fine to coarse; small graphs have room for few."""
    counts = [min(max(top, 2), _MOST_TOP_GROUPS, num_nodes)]
    for _ in range(levels - 1):
        room = max(counts[-1], num_nodes // _FEWEST_MEMBERS)
        counts.append(min(round(ratio * counts[-1]), room, num_nodes))
    return tuple(counts[::-1])


def _check(settings: RunConfig, facts: GraphFacts, groups: tuple[int, ...]) -> None:
    """Refuse settings that contradict the graph or each other once they are resolved."""
    if groups[0] > facts.num_nodes:
        raise InputError(
            f"{groups[0]:,} groups were asked for but the graph has only {facts.num_nodes:,} "
            f"nodes; ask for fewer with --groups"
        )
    if settings.train.batch == "full" and settings.train.shards > 1:
        raise InputError(
            f"train.shards = {settings.train.shards} cuts sampled batches, but train.batch is "
            f"'full'; use train.batch = 'sampled', or one process and one shard"
        )
    if settings.inputs.link_rows and settings.model.membership_input != "block":
        raise InputError(
            "inputs.link_rows goes with model.membership_input = 'block'; leave it out to read the "
            "paper as it is"
        )
    table = settings.loss.context_table
    if settings.loss.context == "infonce" and table not in ("auto", "inductive"):
        raise InputError(
            f"loss.context_table = {table!r} goes with loss.context = 'skipgram'; the contrastive "
            f"loss encodes its contexts"
        )


def _fit_into_memory(train: TrainConfig, values: dict[str, Any], facts: GraphFacts) -> None:
    """Choose samples, and smaller ones, where the user left it open and memory is short.

    What is chosen is part of the config, so a run that is resumed elsewhere stays what it was.
    """
    room = memory_room(train, facts)

    def needed(**changes: Any) -> int:
        tried = {**values, "train": {**values["train"], **changes}}
        return estimate_memory(ResolvedConfig.model_validate(tried), facts)

    if train.batch == "auto" and needed() > room:
        values["train"]["batch"] = "sampled"
    if train.batch_size is not None or values["train"]["batch"] != "sampled":
        return
    # The largest that fits, and otherwise the largest that saves all that smaller ones can.
    chosen = int(values["train"]["batch_size"])
    smaller = (size for size in _BATCH_SIZES if size < chosen)
    sizes = {size: needed(batch_size=size) for size in (chosen, *smaller)}
    enough = max(room, min(sizes.values()))
    values["train"]["batch_size"] = max(size for size, num in sizes.items() if num <= enough)


def _context_weight(defaults: TaskDefaults, settings: RunConfig, facts: GraphFacts) -> float:
    """Return what contexts weigh in the loss.

    They make alike who is met on short walks. Where neighbours differ that is wrong for classes.
    """
    if settings.task == "classify" and not facts.neighbors_agree:
        return 0.0
    return _beside_labels(defaults.context_weight, settings, facts)


def _teacher_weight(defaults: TaskDefaults, settings: RunConfig, facts: GraphFacts) -> float:
    """Return what the groups' word weighs, or 0 where it would hardly be heard."""
    weight = _beside_labels(defaults.teacher_weight, settings, facts)
    return weight if weight >= _LEAST_TEACHER else 0.0


def _doubts_teacher(settings: RunConfig, facts: GraphFacts, values: Mapping[str, Any]) -> bool:
    """Return whether a second network is trained without what the groups teach.

    Groups and contexts tell nodes without a label that members of a group, and nodes met on short
    walks, are of one class. With few labels that is most of what is learned, and where groups do
    not follow the classes it is wrong. A handful of training labels cannot say which it is, the
    validation labels can. Only a fit with the whole graph in every step is quick enough for that.
    """
    given = (settings.loss.context_weight, settings.loss.teacher_weight)
    is_quick = values["train"]["batch"] == "full" and values["train"]["shards"] == 1
    is_taught = facts.has_few_labels and bool(values["loss"]["teacher_weight"])
    return is_taught and not facts.is_multi and given == (None, None) and is_quick


def _beside_labels(most: float, settings: RunConfig, facts: GraphFacts) -> float:
    """Return what a loss without labels weighs beside the mean over labels: less, the more labels.

    It is worth a number of labels of its own, but not so much that the labels go unheard; and
    nothing where links say nothing of the classes.
    """
    if settings.task == "embed":
        return most
    if not facts.links_tell:
        return 0.0
    return float(f"{min(most, _WORTH_LABELS / max(facts.labels_per_class, 1e-9)):.2g}")


def _feature_dropout(rate: float, settings: RunConfig, facts: GraphFacts) -> float:
    """Return how much of the features is dropped, which is for words.

    Of many words a part tells the same, and what is learned of it does not rest on single ones. One
    mark of a few, or a number that was measured, has nothing to stand in for it.
    """
    if not facts.num_features:
        return rate
    if not facts.words_per_node:
        return 0.0 if settings.task == "classify" else min(rate, _MEASURED_DROPOUT)
    return round(min(rate, max(0.0, 1 - _FEWEST_WORDS / facts.words_per_node)), 3)


def _context_table(settings: RunConfig, facts: GraphFacts, groups: tuple[int, ...]) -> str:
    """Return which context vectors suit the loss and fit into memory."""
    if settings.loss.context == "infonce":
        return "inductive"
    size = 4 * facts.num_nodes * (-(-settings.dim // len(groups))) * sum(groups)
    most = min(_FULL_TABLE_BYTES, _FULL_TABLE_SHARE * memory_room(settings.train, facts))
    return "full" if size <= most else "factored"


def _sampled_epochs(steps: int, pass_steps: int, epoch_steps: int, most: int) -> int:
    """Return the epochs that take about as many sampled steps as quality grows for.

    Args:
        steps: So many steps.
        pass_steps: Steps of a pass over all nodes.
        epoch_steps: Steps after which an epoch ends; 0 for a pass.
        most: Most passes.
    """
    if 0 < epoch_steps < pass_steps:
        return -(-steps // epoch_steps)
    return min(most, max(_FEWEST_PASSES, -(-steps // pass_steps)))


def _fill(section: dict[str, Any], **decided: Any) -> None:
    """Set those values of a section that were left open."""
    section |= {name: value for name, value in decided.items() if section[name] in (None, "auto")}
