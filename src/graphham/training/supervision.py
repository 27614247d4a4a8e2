"""Which labels may be trained on, which are kept for validation, and how logits score there."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.graph.rows import checked_rows
from graphham.model.losses import class_loss
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.multilabel import ranked_micro_f1

# With labels to train on at fewer nodes than this share, they are few.
_FEW_LABELS = 0.2


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels as training sees them.

    Args:
        targets: ``(num_nodes,)`` class codes, or ``(num_nodes, num_classes)`` of zeros and ones.
        training: ``(num_nodes,)`` mask of the nodes whose labels may be trained on.
        validation: ``(count,)`` rows kept for early stopping.
    """

    targets: Tensor
    training: Tensor
    validation: Tensor

    @property
    def is_multi(self) -> bool:
        """Whether a node may carry several labels."""
        return self.targets.dim() == 2

    @property
    def is_few(self) -> bool:
        """Whether so few nodes have labels to train on that more has to come from elsewhere."""
        return int(self.training.sum()) < _FEW_LABELS * len(self.training)

    @classmethod
    def split(
        cls,
        labels: Labels,
        seed: int,
        share: float,
        train_rows: object = None,
        validation_rows: object = None,
    ) -> Truth:
        """Divide the known labels into training and validation.

        Args:
            labels: All labels; unknown ones are left out.
            seed: Decides the validation nodes.
            share: Share of the training nodes kept for validation when none are given.
            train_rows: Rows whose labels may be used, or a mask; all known ones when not given.
            validation_rows: Rows (or a mask) kept for early stopping, whose labels are never
                trained on.
        """
        known = torch.from_numpy(labels.known.copy())
        if labels.codes is not None:
            targets = torch.from_numpy(labels.codes.astype("int64"))
        else:
            assert labels.matrix is not None
            targets = torch.from_numpy(labels.matrix.toarray().astype("float32"))
        training = known.clone()
        if train_rows is not None:
            chosen = torch.zeros_like(known)
            chosen[checked_rows(train_rows, len(known), "train_rows")] = True
            training &= chosen
        if validation_rows is not None:
            validation = torch.from_numpy(
                checked_rows(validation_rows, len(known), "validation_rows")
            )
            validation = validation[known[validation]]
        else:
            rows = torch.nonzero(training)[:, 0]
            generator = numpy_generator(derive_key(seed, "validation"))
            order = torch.from_numpy(generator.permutation(len(rows)))
            validation = rows[order[: int(share * len(rows))]].sort().values
        training[validation] = False
        if not bool(training.any()):
            raise InputError("no label is left to train on; give more labels or use --task embed")
        return cls(targets, training, validation)

    def score(self, logits: Tensor) -> tuple[float, float]:
        """Return accuracy (micro-F1 for several labels) on the validation rows, and minus the loss.

        Several labels are predicted as a test predicts them: as many as a node has.

        Args:
            logits: ``(validation rows, num_classes)``.
        """
        targets = self.targets[self.validation]
        loss = float(class_loss(logits, targets))
        if not self.is_multi:
            return float((logits.argmax(1) == targets).float().mean()), -loss
        labels = sp.csr_matrix(targets.cpu().numpy() > 0)
        return ranked_micro_f1(logits.detach().cpu().numpy(), labels), -loss
