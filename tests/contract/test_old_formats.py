"""Every format that was ever written is still read; a newer one is refused by its version."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.store import open_store, verify_store
from graphham.results.run_folder import Run

KEPT = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("folder", sorted(KEPT.glob("store-*")), ids=lambda p: p.name)
def test_kept_stores_are_read(folder: Path) -> None:
    from tests.graph.test_integrity import example

    assert open_store(folder).fingerprint() == example().fingerprint()
    verify_store(folder)


@pytest.mark.parametrize("folder", sorted(KEPT.glob("run-*")), ids=lambda p: p.name)
def test_kept_runs_are_read(folder: Path) -> None:
    from tests.outputs import make_result

    run, made = Run.open(folder), make_result(30)
    result = run.result()
    assert np.array_equal(result.embedding, made.embedding)
    assert all(np.array_equal(a, b) for a, b in zip(result.groups, made.groups, strict=True))
    assert list(result.ids) == list(made.ids)
    assert run.metrics == [{"epoch": 1, "loss": 0.5}]
    assert run.state()["w"].tolist() == [0, 1, 2]
    assert run.graph().num_nodes == 30


def test_the_formats_of_today_are_kept() -> None:
    """Whoever raises a version adds a fixture of it, so that the next one reads it."""
    from graphham.graph import store
    from graphham.results import run_folder

    assert (KEPT / f"store-{store.VERSION}").is_dir()
    assert (KEPT / f"run-{run_folder.VERSION}").is_dir()


@pytest.mark.parametrize("version", [0, -1, True, 99, "2", None, 2.0, 10**40])
def test_other_versions_are_refused(tmp_path: Path, version: object) -> None:
    for kind, file, key in (
        ("store-1", "store.json", "version"),
        ("run-2", "summary.json", "format_version"),
    ):
        shutil.copytree(KEPT / kind, tmp_path / kind)
        manifest = tmp_path / kind / file
        content = json.loads(manifest.read_text())
        about = {key: version, "graphham_version": "7.8.9"}
        manifest.write_text(json.dumps({**content, **about}))
    with pytest.raises(InputError, match=r"install .*7\.8\.9") as caught:
        open_store(tmp_path / "store-1")
    assert len(str(caught.value)) < 500
    with pytest.raises(InputError, match=r"install .*7\.8\.9"):
        Run.open(tmp_path / "run-2")
