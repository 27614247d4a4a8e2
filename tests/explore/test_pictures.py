"""The main views look as they did: small grey pictures compared with kept ones.

After a change that is meant to be seen, look at the new pictures and keep them:

    GRAPHHAM_NEW_PICTURES=1 python -m pytest tests/explore/test_pictures.py
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.explore.launch import RunningExplorer
from graphham.report import write_report
from graphham.results import projection
from graphham.results.run_writer import start_run
from tests.explore.conftest import PATIENCE
from tests.explore.pictures import FOLDER, difference, read_reference, small_grey, write_reference
from tests.outputs import make_graph, make_result

# Other fonts and another software renderer stay below these; what is gone or dark does not.
MOST_MEAN, MOST_TILE = 0.025, 0.1
MOST_BYTES = 12_000
EXPLORER = {"group": "group=2-1", "treemap": "tab=treemap"}
VIEWS = [
    *((name, 1400, theme) for theme in ("light", "dark") for name in ("report", "group")),
    ("treemap", 1400, "light"),
    ("report", 400, "light"),
    ("group", 400, "dark"),
]


@pytest.fixture(scope="module")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is the same to the bit everywhere: nothing is fitted and no map computed."""
    result = make_result(160, (6, 3), seed=3)
    place = tmp_path_factory.mktemp("pictures") / "run"
    with start_run(place, {"seed": 1, "task": "embed"}) as writer:
        for epoch in range(1, 9):
            writer.log({"epoch": epoch, "loss": 2 + 3 / epoch, "context": 2.0 / epoch})
        run = writer.finish(result, {}, make_graph(result), {"cost": {"seconds": 3.0}})
    angle = 2 * np.pi * result.groups[0] / 6
    spread = np.random.default_rng(4).normal(0, 0.12, (160, 2))
    xy = np.stack([np.cos(angle), np.sin(angle)], axis=1) + spread
    made = projection.NodeMap(xy.astype(np.float32), "t-SNE", 160)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "tsne_map", lambda *_: made)
        projection.run_map(run)
    return run.path


@pytest.fixture(scope="module")
def addresses(
    drawn_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    report = write_report(drawn_run, tmp_path_factory.mktemp("page") / "report.html")
    with RunningExplorer(drawn_run) as running:
        running.explorer.prepare()
        pages = {name: f"{running.address}#{view}" for name, view in EXPLORER.items()}
        yield {**pages, "report": report.as_uri()}


def take(browser: Any, address: str, width: int, theme: str) -> bytes:
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    try:
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=PATIENCE)
        page.wait_for_function("(document.documentElement.dataset.busy || 'no') === 'no'")
        page.wait_for_timeout(150)
        picture: bytes = page.screenshot(full_page=width == 1400, animations="disabled")
        return picture
    finally:
        context.close()


@pytest.mark.parametrize(("name", "width", "theme"), VIEWS)
def test_a_view_looks_as_it_did(
    browser: Any, addresses: dict[str, str], tmp_path: Path, name: str, width: int, theme: str
) -> None:
    png = take(browser, addresses[name], width, theme)
    picture, key = small_grey(png), f"{name}-{width}-{theme}"
    if os.environ.get("GRAPHHAM_NEW_PICTURES"):
        assert write_reference(key, picture).stat().st_size < MOST_BYTES
        return
    kept = read_reference(key)
    assert kept is not None, f"there is no picture of {key}; see the head of this file"
    (tmp_path / f"{key}.png").write_bytes(png)
    mean, tile = difference(picture, kept)
    assert abs(len(picture) - len(kept)) <= 0.06 * len(kept), "the page is longer or shorter"
    advice = f"{key} looks different (see {tmp_path}): mean {mean:.3f}, worst tile {tile:.3f}"
    assert mean <= MOST_MEAN, advice
    assert tile <= MOST_TILE, advice


def test_the_comparison_sees_what_a_person_would() -> None:
    kept = read_reference("group-1400-light")
    dark = read_reference("group-1400-dark")
    assert kept is not None
    assert dark is not None
    moved = np.roll(kept, 1, axis=1)  # more than any font moves things
    assert difference(kept, moved)[0] <= 3 * MOST_MEAN
    assert difference(kept, dark)[0] > 5 * MOST_MEAN
    gone = kept.copy()
    gone[:, :28] = 1.0  # the tree of groups on the left is not drawn
    assert difference(kept, gone)[1] > MOST_TILE or difference(kept, gone)[0] > MOST_MEAN
    assert sum(f.stat().st_size for f in FOLDER.glob("*.png")) < 8 * MOST_BYTES
