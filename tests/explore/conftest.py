"""Runs to look at, and a real browser where there is one."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.config.settings import make_config
from graphham.explore.launch import RunningExplorer
from graphham.graph.graph import Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.planted import planted_hierarchy
from graphham.methods.run_fitting import fit_to_run
from graphham.results.run_folder import Run
from scripts.screenshots import FLAGS
from tests.explore.client import Client
from tests.hostile import write_hostile_run

# Milliseconds: a machine with other work on it takes its time, and only a page that never comes
# is a failure.
PATIENCE = 240_000
# A coarse group that every view shows.
GROUP = "2-1"


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real fit of a planted hierarchy, with a map."""
    planted = planted_hierarchy((2, 3), 240, mean_degree=10, words=60, word_on=0.3, seed=5)
    graph = planted.graph
    codes = planted.levels[-1].astype(np.int32)
    graph = build_graph(
        *graph.edge_list().T,
        graph.num_nodes,
        ids=NodeIds([f"n{100 + 7 * row}" for row in range(graph.num_nodes)]),
        features=graph.features,
        feature_names=[f"use::topic{i}" for i in range(graph.num_features)],
        labels=Labels(tuple(f"kind {c}" for c in range(codes.max() + 1)), codes=codes),
        titles=[f"the title of {row}" for row in range(graph.num_nodes)],
        name="planted",
    )
    config = make_config({"groups": (6, 2), "dim": 16, "train.epochs": 6})
    out = tmp_path_factory.mktemp("runs") / "small"
    run = fit_to_run(graph, config, out)
    from graphham.results.projection import run_map

    run_map(run)
    return run.path


@pytest.fixture
def own_run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of the small run that a test may change."""
    return Path(shutil.copytree(small_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hostile_run(tmp_path_factory.mktemp("hostile") / "run").path


@pytest.fixture
def client(own_run: Path) -> Iterator[Client]:
    (own_run.parent / "secret.txt").write_text("secret")
    with RunningExplorer(own_run) as running:
        yield Client(running.port, running.token)


@dataclass
class Tab:
    """A page of the browser that records what goes wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, address: str) -> Any:
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=PATIENCE)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until the page has followed the last change."""
        self.page.wait_for_timeout(50)
        self.page.wait_for_function(
            "(document.documentElement.dataset.busy || 'no') === 'no'", timeout=PATIENCE
        )

    def check(self) -> None:
        assert self.errors == []
        assert self.strangers == []
        assert not self.page.evaluate("window.hacked === 1")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    opened = Tab(context.new_page())
    home = ("http://127.0.0.1:", "file:", "data:", "blob:")

    def record(message: Any) -> None:
        # Software WebGL remarks on its own speed; everything else is ours.
        if message.type in ("error", "warning") and "GL Driver Message" not in message.text:
            opened.errors.append(message.text)

    opened.page.on("console", record)
    opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.page.on(
        "request",
        lambda r: None if r.url.startswith(home) else opened.strangers.append(r.url),
    )
    yield opened
    context.close()


@pytest.fixture
def served(own_run: Path) -> Iterator[RunningExplorer]:
    with RunningExplorer(own_run) as running:
        yield running


def members(run: Run, level: int, group: int) -> list[str]:
    nodes = run.nodes
    ids, codes = nodes["id"].to_pylist(), nodes[f"group_{level}"].to_pylist()
    return [i for i, c in zip(ids, codes, strict=True) if c == group]


def check_group_everywhere(tab: Tab, run: Run) -> None:
    """Every view must agree with the tables about the selected group."""
    page, ids = tab.page, members(run, 2, 1)
    name = run.hierarchy.names[1][1]
    assert f"group={GROUP}" in page.url
    assert page.inner_text("#groupname") == name
    assert int(page.get_attribute("#map", "data-selected")) == len(ids)
    assert page.inner_text("#tabletitle") == f"{name}: {len(ids)} nodes"
    shown = page.eval_on_selector_all("#tablebox tbody tr", "rows => rows.map(r => r.dataset.id)")
    assert sorted(shown) == sorted(ids)
    overlay = page.evaluate(
        "document.getElementById('map').data.find(t => t.name === 'selected').x.length"
    )
    assert overlay == len(ids)
