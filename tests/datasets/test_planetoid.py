"""Planetoid files are read without running what a pickle could run."""

import os
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.datasets import (
    load_dataset,
    planetoid,
)
from graphham.errors import InputError


def test_planetoid_splits_and_missing_papers(data: Path) -> None:
    citeseer, pubmed = load_dataset("citeseer"), load_dataset("pubmed")
    assert {k: len(v) for k, v in citeseer.splits.items()} == {
        "train": 120,
        "val": 500,
        "test": 1000,
    }
    assert {k: len(v) for k, v in pubmed.splits.items()} == {"train": 60, "val": 500, "test": 1000}
    for graph in (citeseer, pubmed):
        everywhere = np.concatenate(list(graph.splits.values()))
        assert len(np.unique(everywhere)) == len(everywhere)
        per_class = np.bincount(graph.labels.codes[graph.splits["train"]])
        np.testing.assert_array_equal(per_class, np.full(len(graph.labels.classes), 20))
    unknown = ~citeseer.labels.known
    assert unknown.sum() == 15
    assert citeseer.features[unknown].nnz == 0
    # Sizes of the six classes in the LINQS release, where classes have names.
    sizes = dict(
        zip(citeseer.labels.classes, np.bincount(citeseer.labels.codes + 1)[1:], strict=True)
    )
    assert sizes == {"Agents": 596, "AI": 249, "DB": 701, "IR": 668, "ML": 590, "HCI": 508}


class _Payload:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused_unrun(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(_Payload(f"touch {trace}"), protocol=protocol))
    with pytest.raises(InputError, match="system"):
        planetoid.read_arrays(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cbuiltins\ngetattr\n.",
        b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",
        b"cscipy.sparse.csr\ncsr_matrix\n.",
    ],
)
def test_other_pickles_are_refused_too(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ind.cora.allx"
    path.write_bytes(content)
    try:
        value = planetoid.read_arrays(path)
    except InputError:
        return
    # A bare class may be named, but it is our own stand-in and no loader accepts it as data.
    with pytest.raises(InputError):
        planetoid._expect(value, sp.csr_matrix, path)


def test_pickles_of_today_read_like_those_of_python_2(tmp_path: Path) -> None:
    matrix = sp.random(6, 5, density=0.4, format="csr", dtype=np.float32, rng=0)
    lists = defaultdict(list, {0: [1, 2], 1: [0]})
    for number, value in enumerate((matrix, np.eye(3, dtype=np.int32), lists)):
        for protocol in (2, 4):
            path = tmp_path / f"{number}.{protocol}"
            path.write_bytes(pickle.dumps(value, protocol=protocol))
            back = planetoid.read_arrays(path)
            if number == 0:
                np.testing.assert_array_equal(back.toarray(), matrix.toarray())
            elif number == 1:
                np.testing.assert_array_equal(back, np.eye(3))
            else:
                assert back == lists
