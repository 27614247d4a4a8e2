"""A run to report on."""

from pathlib import Path
from typing import Any

import pytest

from graphham.report import RunView
from graphham.results.run_writer import Run, start_run
from tests.outputs import make_graph, make_result


def write_run(place: Path, **about: Any) -> Run:
    result = make_result(**{"count": 80, **about})
    with start_run(place, {"seed": 1, "task": "embed"}) as writer:
        for epoch in range(1, 4):
            writer.log({"epoch": epoch, "loss": 3.0 / epoch, "context": 2.0 / epoch, "used_1": 6})
        return writer.finish(result, {}, make_graph(result), {"cost": {"seconds": 3.0}})


@pytest.fixture(scope="session")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return RunView.of(write_run(tmp_path_factory.mktemp("report") / "run"))
