"""The training objective of one step, part by part (E14, E16)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from graphham.config.resolved import ResolvedLoss
from graphham.kernels import take_rows
from graphham.model.losses import class_loss, constraint_loss, use_losses
from graphham.model.membership import one_hot_straight_through
from graphham.model.network import GraphHAMNet, Output
from graphham.sampling.random_stream import Source
from graphham.training.batches import Step
from graphham.training.supervision import Truth


@dataclass(frozen=True, eq=False)
class EncodedStep:
    """A step and what the network made of it: all that a term of the objective may look at.

    Args:
        model: The network.
        loss: What each part weighs.
        step: What was encoded.
        output: The network's answer.
        truth: Labels, for joint classification.
        seeds: Per level ``(num_nodes,)`` groups that seeding found, once it has happened.
        generator: Source of dropout before the classifier.
        pseudo_labels: ``(num_nodes, num_classes)`` what the averaged network expects, once it does.
    """

    model: GraphHAMNet
    loss: ResolvedLoss
    step: Step
    output: Output
    truth: Truth | None
    seeds: list[Tensor] | None
    generator: Source
    pseudo_labels: Tensor | None = None


# Returns weighted parts by name; an empty dictionary where the term has nothing to say.
Term = Callable[[EncodedStep], dict[str, Tensor]]


def loss_parts(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return the weighted parts of the objective; their sum is what is minimised (E14, E16)."""
    parts: dict[str, Tensor] = {}
    for term in TERMS:
        parts |= term(encoded)
    return parts


def total_loss(parts: dict[str, Tensor]) -> Tensor:
    """Return the sum of the parts."""
    return torch.stack(list(parts.values())).sum()


def _context(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return the weighted context losses of all layers (E11), each a mean over pairs."""
    model, loss = encoded.model, encoded.loss
    step, output = encoded.step, encoded.output
    total = output.states[0].new_zeros(())
    if not loss.context_weight:
        return {"context": total}
    for level, state in enumerate(output.states):
        decoder = model.decoder(level)
        z = output.assignments[level]
        if model.settings.straight_through:
            z = one_hot_straight_through(z)
        if loss.context == "skipgram":
            h = F.normalize(state, dim=1) if decoder.table is None else state
            term = decoder.skipgram(
                h, z, step.anchors, step.positives[level], step.negatives[level]
            )
        else:
            nodes = step.positives[level]
            valid = nodes >= 0
            anchors = step.anchors[:, None].expand_as(nodes)[valid]
            term = decoder.contrast(state, z, anchors, nodes[valid])
        total = total + loss.context_weight * term
    return {"context": total}


def _nesting(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return the constraints between neighbouring levels (E13)."""
    model, loss = encoded.model, encoded.loss
    step, output = encoded.step, encoded.output
    if model.settings.straight_through:
        levels = [one_hot_straight_through(step.drawn(z)) for z in output.assignments]
    else:
        # The evidence, not the joint membership: that nests by construction and has nothing to
        # learn from its own violations.
        levels = [step.drawn(level) for level in output.evidence]
    total = levels[0].new_zeros(())
    for lower, upper in itertools.pairwise(levels):
        total = total + constraint_loss(
            lower, upper, loss.must_link_weight, loss.cannot_link_weight, loss.violation
        )
    return {"nesting_loss": total}


def _use(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return KL to even use of the finest groups, and the loss of the nodes' seeded groups.

    A parent may hold as much as its children.
    """
    model, loss, step = encoded.model, encoded.loss, encoded.step
    memberships = [step.drawn(level) for level in encoded.output.memberships]
    seeds = None
    if encoded.seeds is not None and loss.self_training_weight:
        rows = torch.from_numpy(step.rows[: len(step.members)])
        seeds = [level[rows.to(level.device)] for level in encoded.seeds]
    share = torch.full_like(memberships[0][0], 1 / model.groups[0]).detach()
    total = memberships[0].new_zeros(())
    missed = None if seeds is None else memberships[0].new_zeros(())
    for level, membership in enumerate(memberships):
        if level:
            count = model.groups[level]
            if model.is_seeded:
                share = share.new_zeros(count).index_add(0, model.parent_maps[level - 1], share)
            else:
                share = torch.full_like(membership[0], 1 / count).detach()
        balance, seed = use_losses(membership, share, None if seeds is None else seeds[level])
        total = total + balance
        missed = None if missed is None or seed is None else missed + seed
    parts = {"balance": loss.balance_weight * total}
    if missed is not None:
        parts["seed"] = loss.self_training_weight * missed
    return parts


def _classes(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return the class loss of labelled members (E15), and how far the others are from theirs.

    The others' targets are pseudo-labels, once there are any.
    """
    model, loss, truth = encoded.model, encoded.loss, encoded.truth
    if truth is None or model.classifier is None:
        return {}
    step, states, generator = encoded.step, encoded.output.states, encoded.generator
    pseudo_labels = encoded.pseudo_labels
    members = step.members.cpu()
    rows = torch.from_numpy(step.rows)[members]
    labelled = truth.training[rows]
    targets = truth.targets[rows[labelled]].to(step.members.device)
    if not model.settings.class_steps and pseudo_labels is None:
        here = members[labelled].to(step.members.device)
        logits = model.class_logits([take_rows(h, here)[0] for h in states], generator)
        return {"class": loss.class_weight * class_loss(logits, targets)}
    logits = model.class_logits(states, generator)
    logits = model.spread(logits, step.batch.blocks[-1])[step.members]
    parts = {"class": loss.class_weight * class_loss(logits[labelled], targets)}
    if pseudo_labels is not None and not bool(labelled.all()):
        others = logits[~labelled]
        probabilities = others.sigmoid() if truth.is_multi else others.softmax(1)
        gap = probabilities - pseudo_labels[rows[~labelled]].to(probabilities)
        parts["guess"] = loss.guess_weight * gap.square().sum(1).mean()
    return parts


# The parts of the objective in the order in which they are added up; a new term goes here.
TERMS: tuple[Term, ...] = (_context, _nesting, _use, _classes)
