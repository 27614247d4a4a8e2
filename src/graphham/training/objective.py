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
from graphham.model.losses import balance_loss, class_loss, constraint_loss
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
        generator: Source of dropout before the classifier.
        teacher: ``(num_nodes, num_classes)`` what the groups say of the classes.
    """

    model: GraphHAMNet
    loss: ResolvedLoss
    step: Step
    output: Output
    truth: Truth | None
    generator: Source
    teacher: Tensor | None = None


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
    """Return the constraints between neighbouring levels (E13).

    The groups of a block model nest by construction and have nothing to learn from violations.
    """
    model, loss = encoded.model, encoded.loss
    step, output = encoded.step, encoded.output
    if model.has_block_groups:
        return {}
    if model.settings.straight_through:
        levels = [one_hot_straight_through(step.drawn(z)) for z in output.assignments]
    else:
        levels = [step.drawn(level) for level in output.memberships]
    total = levels[0].new_zeros(())
    for lower, upper in itertools.pairwise(levels):
        total = total + constraint_loss(
            lower, upper, loss.must_link_weight, loss.cannot_link_weight, loss.violation
        )
    return {"nesting_loss": total}


def _use(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return KL to even use of every level's groups, where the layers make their own."""
    model, loss, step = encoded.model, encoded.loss, encoded.step
    if model.has_block_groups or not loss.balance_weight:
        return {}
    memberships = [step.drawn(level) for level in encoded.output.memberships]
    total = memberships[0].new_zeros(())
    for level in memberships:
        total = total + balance_loss(level, torch.full_like(level[0], 1 / level.shape[1]))
    return {"balance": loss.balance_weight * total}


def _classes(encoded: EncodedStep) -> dict[str, Tensor]:
    """Return the class loss of labelled members (E15), and how far others are from the teacher."""
    model, loss, truth = encoded.model, encoded.loss, encoded.truth
    if truth is None or model.classifier is None:
        return {}
    step, states, generator = encoded.step, encoded.output.states, encoded.generator
    members = step.members.cpu()
    rows = torch.from_numpy(step.rows)[members]
    labelled = truth.training[rows]
    targets = truth.targets[rows[labelled]].to(step.members.device)
    memberships = step.batch.memberships
    teacher = encoded.teacher if loss.teacher_weight else None
    if not model.settings.class_steps and teacher is None:
        here = members[labelled].to(step.members.device)
        picked = [take_rows(h, here)[0] for h in states]
        logits = model.class_logits(picked, memberships[here], generator)
        return {"class": loss.class_weight * class_loss(logits, targets)}
    told = memberships[: len(states[0])]
    logits = model.class_logits(states, told, generator)
    logits = model.spread(logits, step.batch.blocks[-1], told)[step.members]
    parts = {"class": loss.class_weight * class_loss(logits[labelled], targets)}
    if teacher is not None and not bool(labelled.all()):
        expected = teacher[rows[~labelled]].to(logits)
        others = logits[~labelled]
        agree = class_loss if truth.is_multi else F.cross_entropy
        parts["teacher"] = loss.teacher_weight * agree(others, expected)
    return parts


# The parts of the objective in the order in which they are added up; a new term goes here.
TERMS: tuple[Term, ...] = (_context, _nesting, _use, _classes)
