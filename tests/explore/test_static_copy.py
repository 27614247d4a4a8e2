"""The explorer as a folder of files."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.explore import static_copy
from graphham.explore.binary_columns import unpack
from graphham.explore.queries import Explorer
from graphham.explore.static_copy import export_static
from graphham.results.run_folder import Run


def test_the_static_copy_is_written_whole_and_never_over_something(
    small_run: Path, tmp_path: Path
) -> None:
    folder = export_static(small_run, tmp_path / "copy")
    names = {p.name for p in folder.iterdir()}
    assert names == {"index.html", "app.css", "app.js", "data.js", "plotly.min.js"}
    page = (folder / "index.html").read_text()
    assert 'type="module"' not in page
    assert "://" not in page
    with pytest.raises(InputError, match="exists already"):
        export_static(small_run, folder)
    assert not [p for p in tmp_path.iterdir() if p.name != "copy"]


def test_the_static_copy_holds_the_runs_own_numbers(small_run: Path, tmp_path: Path) -> None:
    text = (export_static(small_run, tmp_path / "copy") / "data.js").read_text()
    data = json.loads(text.removeprefix("window.GRAPHHAM = ").rstrip(";\n"))
    run = Run.open(small_run)
    nodes, _ = unpack(base64.b64decode(data["points"]))
    assert nodes["id"] == run.nodes["id"].to_pylist()
    details, meta = unpack(base64.b64decode(data["details"]))
    members = np.asarray(run.nodes["membership_2"].to_pylist())
    np.testing.assert_allclose(details["membership2"].reshape(240, 2) / 65535, members, atol=1e-5)
    graph, explorer = run.graph(), Explorer(small_run)
    np.testing.assert_array_equal(details["indices"], graph.indices)
    near = details["near"].reshape(240, meta["near"])
    for row in (0, 99):
        seen = explorer.node(row)
        assert near[row].tolist() == seen["near"]["rows"]
        low, high = details["indptr_1"][row : row + 2]
        shares = dict(zip(details["indices_1"][low:high], details["node_1"][low:high], strict=True))
        for other, share in zip(seen["layers"][0]["rows"], seen["layers"][0]["node"], strict=True):
            assert shares[other] / 65535 == pytest.approx(share, abs=1e-5)


def test_a_run_too_large_for_a_page_is_refused(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_copy, "MAX_NODES", 200)
    with pytest.raises(InputError, match=r"240 nodes.*at most 200"):
        export_static(small_run, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
