"""A remark where a graph looks directed and is not read so, or the reverse."""

from pathlib import Path

import numpy as np
import pytest

from graphham.io.direction import direction_remark
from graphham.io.reader import read_graph


def links(count: int, seed: int = 0) -> np.ndarray:
    """Different links, each in one direction by chance."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, 60, (4 * count, 2)), axis=1), axis=0)
    pairs = rng.permutation(pairs[pairs[:, 0] != pairs[:, 1]])[:count]
    turned = rng.random(len(pairs)) < 0.5
    return np.where(turned[:, None], pairs[:, ::-1], pairs)


@pytest.mark.parametrize(
    ("rows", "directed", "words"),
    [
        (links(200), False, None),  # each link once: how most undirected files look
        (np.vstack([links(200), links(200)[:, ::-1]]), False, None),  # and how the others do
        (np.vstack([links(200), links(200)[:60, ::-1]]), False, "--directed keeps it"),
        (np.vstack([links(200), links(200)[:60, ::-1]]), True, None),
        (np.vstack([links(200), links(200)[:, ::-1]]), True, "without --directed"),
        (links(200), True, None),
        (np.repeat(np.vstack([links(200), links(200)[:60, ::-1]]), 3, axis=0), False, None),
        (np.vstack([links(30), links(30)[:9, ::-1]]), False, None),  # too few to say
    ],
)
def test_only_what_is_telling_is_remarked(
    rows: np.ndarray, directed: bool, words: str | None
) -> None:
    found = direction_remark([rows[:50], rows[50:]], 60, directed)
    assert (found is None) == (words is None)
    if words is not None:
        assert found is not None
        assert words in found
    if words == "--directed keeps it":
        assert found is not None
        assert found.startswith("60 of 200 links go both ways")


def test_reading_says_so_and_reads_on(tmp_path: Path) -> None:
    rows = np.vstack([links(200), links(200)[:60, ::-1]])
    file = tmp_path / "edges.csv"
    file.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in rows.tolist()))
    graph = read_graph(file)
    assert graph.num_edges == 200
    assert graph.report is not None
    assert any("--directed keeps it" in note for note in graph.report.notes)
    kept = read_graph(file, directed=True)
    assert kept.report is not None
    assert not any("direct" in note for note in kept.report.notes)
