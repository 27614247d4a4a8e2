"""The trackers are told what the log holds; neither library need be installed."""

import sys
from types import ModuleType
from typing import Any

import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.results.tracking import (
    Listeners,
    MLflowListener,
    TensorBoardListener,
    Tracker,
    make_tracker,
)


class Written(ModuleType):
    """Stands for torch.utils.tensorboard and for mlflow, and keeps what it is told."""

    def __init__(self) -> None:
        super().__init__("fake")
        self.scalars: list[tuple[str, float, int]] = []
        self.params: dict[str, str] = {}
        self.events: list[str] = []
        self.active: str | None = None

    def SummaryWriter(self, log_dir: str) -> Any:  # noqa: N802
        self.events.append(f"open {log_dir}")
        return self

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def add_text(self, name: str, text: str, step: int) -> None:
        self.params[name] = text

    def close(self) -> None:
        self.events.append("close")

    def active_run(self) -> str | None:
        return self.active

    def start_run(self, run_name: str | None) -> None:
        self.events.append(f"start {run_name}")
        self.active = run_name

    def end_run(self) -> None:
        self.events.append("end")
        self.active = None

    def set_tracking_uri(self, address: str) -> None:
        self.events.append(address)

    def log_params(self, params: dict[str, str]) -> None:
        self.params |= params

    def log_metrics(self, numbers: dict[str, float], step: int) -> None:
        self.scalars += [(name, value, step) for name, value in numbers.items()]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Written:
    made = Written()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", made)
    monkeypatch.setitem(sys.modules, "mlflow", made)
    return made


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_tracker_hears_every_number_of_the_log(kind: str, fake: Written) -> None:
    graph = gh.planted_hierarchy((2, 2), num_nodes=60, seed=0).graph
    tracker: Tracker = TensorBoardListener("events") if kind == "tensorboard" else MLflowListener()
    model = gh.GraphHAM(groups=(4, 2), dim=8, epochs=2)
    model.fit(graph, listener=Listeners(tracker))
    expected = [
        (name, float(value), record["epoch"])
        for record in model.history_
        for name, value in record.items()
        if name != "epoch" and isinstance(value, int | float) and not isinstance(value, bool)
    ]
    assert len(expected) >= 4
    assert fake.scalars == expected
    assert "train.lr" in " ".join([*fake.params, *fake.params.values()])
    assert fake.events[-1] in ("close", "end")


def test_an_active_run_of_mlflow_stays_open(fake: Written) -> None:
    fake.active = "mine"
    tracker = make_tracker("mlflow:file:store", "runs/x")
    tracker.on_epoch(1, {"epoch": 1, "loss": 2.0, "bad": float("nan"), "is": True, "text": "a"})
    tracker.close()
    assert fake.events == ["file:store"]
    assert fake.scalars == [("loss", 2.0, 1)]


def test_the_command_line_writes_events_beside_the_run(
    fake: Written, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("a,b\n" + "".join(f"{i},{(i + 1) % 9}\n" for i in range(9)))
    fit = ["fit", "e.csv", "--method", "deepwalk", "--dim", "4", "--set", "walks=1", "--quiet"]
    assert main([*fit, "--out", "runs/x", "--track", "tensorboard"]) == 0
    assert fake.events[0] == "open runs/tensorboard/x"
    assert fake.events[-1] == "close"
    assert main([*fit, "--out", "runs/y", "--track", "wandb"]) == 2


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"graphham\[mlflow\]"):
        MLflowListener()
    with pytest.raises(InputError, match=r"graphham\[tensorboard\]"):
        TensorBoardListener("x")
