"""The training objective of one step, part by part (E14, E16)."""

from __future__ import annotations

import itertools

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


def loss_parts(
    model: GraphHAMNet,
    loss: ResolvedLoss,
    step: Step,
    output: Output,
    truth: Truth | None,
    seeds: list[Tensor] | None,
    generator: Source,
    guess: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the weighted parts of the objective; their sum is what is minimised.

    Args:
        model: The network.
        loss: What each part weighs.
        step: What was encoded.
        output: The network's answer.
        truth: Labels, for joint classification.
        seeds: Per level ``(num_nodes,)`` groups the graft found, once it has happened.
        generator: Source of dropout before the classifier.
        guess: ``(num_nodes, num_classes)`` what the averaged network expects, once it does.
    """
    parts = {"context": _context_loss(model, loss, step, output)}
    memberships = [step.drawn(level) for level in output.memberships]
    parts["nesting_loss"] = _nesting_loss(model, loss, step, output)
    targets = None
    if seeds is not None and loss.self_training_weight:
        rows = torch.from_numpy(step.rows[: len(step.members)])
        targets = [level[rows.to(level.device)] for level in seeds]
    balance, missed = _use(model, memberships, targets)
    parts["balance"] = loss.balance_weight * balance
    if missed is not None:
        parts["seed"] = loss.self_training_weight * missed
    if truth is not None and model.classifier is not None:
        parts |= _class_parts(model, loss, step, output, truth, generator, guess)
    return parts


def _class_parts(
    model: GraphHAMNet,
    loss: ResolvedLoss,
    step: Step,
    output: Output,
    truth: Truth,
    generator: Source,
    guess: Tensor | None,
) -> dict[str, Tensor]:
    """Return the class loss of labelled members, and how far the others are from their guess."""
    members = step.members.cpu()
    rows = torch.from_numpy(step.rows)[members]
    labelled = truth.training[rows]
    targets = truth.targets[rows[labelled]].to(step.members.device)
    if not model.settings.class_steps and guess is None:
        here = members[labelled].to(step.members.device)
        logits = model.class_logits([take_rows(h, here)[0] for h in output.states], generator)
        return {"class": loss.class_weight * class_loss(logits, targets)}
    logits = model.class_logits(output.states, generator)
    logits = model.spread(logits, step.batch.blocks[-1])[step.members]
    parts = {"class": loss.class_weight * class_loss(logits[labelled], targets)}
    if guess is not None and not bool(labelled.all()):
        others = logits[~labelled]
        probabilities = others.sigmoid() if truth.is_multi else others.softmax(1)
        gap = (probabilities - guess[rows[~labelled]].to(probabilities)).square().sum(1).mean()
        parts["guess"] = loss.guess_weight * gap
    return parts


def total_loss(parts: dict[str, Tensor]) -> Tensor:
    """Return the sum of the parts."""
    return torch.stack(list(parts.values())).sum()


def _context_loss(model: GraphHAMNet, loss: ResolvedLoss, step: Step, output: Output) -> Tensor:
    """Return the weighted context losses of all layers (E11), each a mean over pairs."""
    total = output.states[0].new_zeros(())
    if not loss.context_weight:
        return total
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
    return total


def _nesting_loss(model: GraphHAMNet, loss: ResolvedLoss, step: Step, output: Output) -> Tensor:
    """Return the constraints between neighbouring levels (E13)."""
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
    return total


def _use(
    model: GraphHAMNet, memberships: list[Tensor], seeds: list[Tensor] | None
) -> tuple[Tensor, Tensor | None]:
    """Return KL to even use of the finest groups, and the loss of the nodes' seeded groups.

    A parent may hold as much as its children.
    """
    share = torch.full_like(memberships[0][0], 1 / model.groups[0]).detach()
    total = memberships[0].new_zeros(())
    missed = None if seeds is None else memberships[0].new_zeros(())
    for level, held in enumerate(memberships):
        if level:
            count = model.groups[level]
            if model.is_seeded:
                share = share.new_zeros(count).index_add(0, model.parent_maps[level - 1], share)
            else:
                share = torch.full_like(held[0], 1 / count).detach()
        balance, seed = use_losses(held, share, None if seeds is None else seeds[level])
        total = total + balance
        missed = None if missed is None or seed is None else missed + seed
    return total, missed
