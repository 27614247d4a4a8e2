"""The map of the nodes, compared with the run's table."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.report import RunView, figures, write_report
from graphham.report.maps import densest_spots
from graphham.report.safe_text import plot_text
from tests.report.conftest import write_run


@pytest.mark.parametrize("color", [1, 2, "label", "concentration"])
def test_the_map_shows_every_node_once_and_the_boundary_again(view: RunView, color: Any) -> None:
    data = figures.node_map(view, color).data
    nodes = [t for t in data if t.name != "boundary nodes"]
    assert sum(len(t.x) for t in nodes) == 80
    edge = next(t for t in data if t.name == "boundary nodes")
    firm = view.run.nodes["concentration"].to_numpy()
    assert len(edge.x) == (firm <= np.quantile(firm, 0.05)).sum()
    if color == 2:
        sizes = {t.name: len(t.x) for t in nodes}
        expected = dict(zip(view.tree.names[1], view.tree.sizes[1].tolist(), strict=True))
        assert sizes == {plot_text(k, 34): v for k, v in expected.items() if v}


def test_names_stand_where_their_groups_are_dense_and_never_on_one_another(view: RunView) -> None:
    rng = np.random.default_rng(0)
    blob = rng.normal((5, 5), 0.2, (60, 2))
    clump = np.repeat([[0.0, 0.0]], 20, axis=0)
    far = rng.normal((-5, 0), 0.2, (30, 2))
    xy = np.vstack([blob, clump, far])
    codes = np.repeat([0, 0, 2], [60, 20, 30])
    spots = densest_spots(xy, codes)
    assert set(spots) == {0, 2}
    np.testing.assert_allclose(spots[0], (5, 5), atol=0.3)
    np.testing.assert_allclose(spots[2], (-5, 0), atol=0.3)
    names = figures.node_map(view, 1).layout.annotations
    assert 0 < len(names) <= view.tree.group_counts[0]
    assert len({(name.x, name.y) for name in names}) == len(names)
    assert not figures.node_map(view, "concentration").layout.annotations


def test_a_colour_that_the_run_lacks_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", groups=(4,), labels="none")
    with pytest.raises(InputError, match="no labels"):
        figures.node_map(run, "label")
    with pytest.raises(InputError, match="cannot colour by 3"):
        figures.node_map(run, 3)
    assert write_report(run).is_file()
