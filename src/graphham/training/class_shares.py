r"""How frequent classes are, where labels were not drawn as nodes are.

Labels are often chosen class by class, five of each, while the classes differ in size. Counted as
they are, such labels say that every class is equally likely, and a rare class takes nodes from a
frequent one. Labels kept for validation tell whether that is so: with n their counts per class and
p the shares among the training labels, the shares of the classes are taken to be

.. math:: m = (n + \kappa p) / (\textstyle\sum n + \kappa),

with that kappa under which n is likeliest (Dirichlet-multinomial), unless endless kappa is nearly
as good: where validation labels do not contradict the training shares nothing changes. A label to
train on then counts m / p. The shares of a few labels drawn as nodes are drawn are off by chance,
and are put right in the same way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlogy

from graphham.training.supervision import Truth

Floats = npt.NDArray[np.float64]
# How many labels the training shares may weigh as much as.
_WORTH = (3.0, 10.0, 30.0, 100.0, 300.0)
_SURE = 2.0  # nats by which counts must speak against the training shares


def class_weights(truth: Truth, num_classes: int) -> Floats | None:
    """Return ``(num_classes,)`` by how much a training label of each class counts.

    Args:
        truth: Labels.
        num_classes: Number of classes, whether or not a node has them all.

    Returns:
        Weights whose mean over the training labels is one, or ``None`` where every label counts
        the same: with several labels a node, without validation labels, and where they are spread
        over the classes as the training labels are.
    """
    if truth.is_multi or not len(truth.validation):
        return None
    learned = np.bincount(truth.targets[truth.training].numpy(), minlength=num_classes)
    kept = np.bincount(truth.targets[truth.validation].numpy(), minlength=num_classes)
    # A class without a training label cannot be counted, and nobody can be asked to predict it.
    held = np.where(learned > 0, kept, 0).astype(np.float64)
    shares = (learned / learned.sum()).astype(np.float64)
    evidence = {kappa: _log_evidence(held, shares, kappa) for kappa in _WORTH}
    worth = max(_WORTH, key=evidence.__getitem__)
    if evidence[worth] - float(xlogy(held, shares).sum()) < _SURE:
        return None
    found = (held + worth * shares) / (held.sum() + worth)
    weights: Floats = np.divide(found, shares, out=np.ones(num_classes), where=shares > 0)
    return weights


def _log_evidence(counts: Floats, shares: Floats, kappa: float) -> float:
    """Return the log probability of counts, but for what does not depend on kappa."""
    seen = shares > 0
    prior = kappa * shares[seen]
    total = gammaln(kappa) - gammaln(kappa + counts.sum())
    return float(total + (gammaln(prior + counts[seen]) - gammaln(prior)).sum())
