"""Which labels are trained on and which are kept for validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.training.supervision import Truth

CODES = np.array([0, 1, 2, -1, 0, 1, 2, -1, 0, 1], dtype=np.int32)
LABELS = Labels(("a", "b", "c"), codes=CODES)


def rows(truth: Truth) -> tuple[set[int], set[int]]:
    return set(torch.nonzero(truth.training)[:, 0].tolist()), set(truth.validation.tolist())


@given(
    st.lists(st.integers(-1, 2), min_size=2, max_size=30).filter(lambda c: max(c) >= 0),
    st.floats(0, 0.9),
    st.integers(0, 9),
    st.sets(st.integers(0, 29)),
)
def test_known_labels_are_divided_without_rest(
    codes: list[int], share: float, seed: int, chosen: set[int]
) -> None:
    labels = Labels(("a", "b", "c"), codes=np.array(codes, dtype=np.int32))
    usable = {row for row in chosen if row < len(codes)}
    known = {row for row in usable if codes[row] >= 0}
    if not known:
        with pytest.raises(InputError, match="no label is left to train on"):
            Truth.split(labels, seed, share, sorted(usable))
        return
    truth = Truth.split(labels, seed, share, sorted(usable))
    training, validation = rows(truth)
    assert training | validation == known
    assert not training & validation
    assert len(validation) == int(share * len(known))
    assert rows(Truth.split(labels, seed, share, sorted(usable))) == (training, validation)


def test_the_seed_decides_who_validates() -> None:
    labels = Labels(("a", "b"), codes=(np.arange(200) % 2).astype(np.int32))
    one, other = (rows(Truth.split(labels, seed, 0.2))[1] for seed in (0, 1))
    assert one != other
    assert len(one) == len(other) == 40


def test_given_validation_rows_are_never_trained_on() -> None:
    truth = Truth.split(LABELS, 0, 0.5, None, [0, 1, 3])
    # Row 3 has no label, so it can say nothing about a prediction.
    assert rows(truth) == ({2, 4, 5, 6, 8, 9}, {0, 1})
    both = Truth.split(LABELS, 0, 0.5, [0, 1, 2, 4], [0, 1])
    assert rows(both) == ({2, 4}, {0, 1})


def test_a_mask_names_the_same_rows_as_their_numbers() -> None:
    mask = np.zeros(10, dtype=bool)
    mask[[1, 2, 5]] = True
    by_mask, by_rows = (Truth.split(LABELS, 3, 0.4, given) for given in (mask, [1, 2, 5]))
    assert rows(by_mask) == rows(by_rows)


def test_several_labels_become_zeros_and_ones() -> None:
    matrix = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool))
    truth = Truth.split(Labels(("a", "b", "c"), matrix=matrix), 0, 0.0)
    assert truth.is_multi
    assert truth.targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    # What a node without labels belongs to is not known.
    assert rows(truth)[0] == {0, 2}


def test_the_score_counts_hits_and_the_loss_breaks_ties() -> None:
    truth = Truth.split(LABELS, 0, 0.0, None, [0, 1, 2, 4])
    right = torch.eye(3)[[0, 1, 2, 0]]
    accuracy, tie = truth.score(right)
    assert accuracy == 1
    slip = right.clone()
    slip[3] = torch.tensor([0.0, 1.0, 0.0])
    assert truth.score(slip)[0] == 0.75
    surer, surer_tie = truth.score(5 * right)
    assert (surer, surer_tie > tie) == (1, True)
    assert -tie == pytest.approx(-float(torch.log_softmax(right, 1)[0, 0]))


@pytest.mark.parametrize(("count", "is_few"), [(19, True), (20, False)])
def test_labels_are_few_below_a_fifth_of_the_nodes(count: int, is_few: bool) -> None:
    labels = Labels(("a", "b"), codes=(np.arange(100) % 2).astype(np.int32))
    assert Truth.split(labels, 0, 0.0, range(count)).is_few is is_few


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0, 10], r"row 10 of train_rows lies outside 0\.\.9"),
        ([-1], r"row -1 of train_rows lies outside 0\.\.9"),
        ([0.5], "whole numbers or a mask of 10 nodes"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([True, False], "whole numbers or a mask of 10 nodes"),
        ([3, 7], "no label is left to train on"),
    ],
)
def test_rows_that_cannot_be_used_are_named(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Truth.split(LABELS, 0, 0.1, given)
