"""Tell TensorBoard or MLflow how a fit goes; both are imported only when asked for."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.training.epochs import Listener
    from graphham.training.plan import Plan

TRACKERS = ("tensorboard", "mlflow")


class Tracker:
    """A listener that writes every number of an epoch somewhere; the base of the two below."""

    def on_plan(self, plan: Plan) -> None:
        """Note the settings of the fit."""
        self._note(_flat(plan.config.to_dict()))

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Nothing to note: the epochs tell."""

    def on_epoch(self, epoch: int, record: Mapping[str, Any]) -> None:
        """Note the numbers of a finished epoch."""
        numbers = {
            name: float(value)
            for name, value in record.items()
            if name != "epoch"
            and isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
        }
        self._log(epoch, numbers)

    def on_note(self, text: str) -> None:
        """Nothing to note: remarks are for people."""

    def on_end(self, status: str) -> None:
        """Close what was written; a fit may end twice."""
        self.close()

    def _note(self, settings: dict[str, str]) -> None:
        raise NotImplementedError

    def _log(self, epoch: int, numbers: dict[str, float]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Write what is left."""


class TensorBoardListener(Tracker):
    """Write losses and scores as TensorBoard events; needs the extra ``tensorboard``.

    Args:
        folder: Where the events go; ``tensorboard --logdir FOLDER`` shows them.
    """

    def __init__(self, folder: str | Path) -> None:
        module = _needed("torch.utils.tensorboard", "tensorboard")
        self._writer: Any = module.SummaryWriter(log_dir=str(folder))

    def _note(self, settings: dict[str, str]) -> None:
        lines = [f"    {name} = {value}" for name, value in settings.items()]
        self._writer.add_text("settings", "\n".join(lines), 0)

    def _log(self, epoch: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class MLflowListener(Tracker):
    """Write settings, losses and scores as a run of MLflow; needs the extra ``mlflow``.

    A run that is active already is used, and left open; otherwise one is begun and ended.

    Args:
        name: Name of a run that is begun.
        tracking_uri: Where MLflow keeps its runs; as set in MLflow when not given.
    """

    def __init__(self, name: str | None = None, tracking_uri: str | None = None) -> None:
        self._mlflow: Any = _needed("mlflow", "mlflow")
        if tracking_uri is not None:
            self._mlflow.set_tracking_uri(tracking_uri)
        self._owns = self._mlflow.active_run() is None
        if self._owns:
            self._mlflow.start_run(run_name=name)

    def _note(self, settings: dict[str, str]) -> None:
        # MLflow refuses longer values.
        self._mlflow.log_params({name: value[:500] for name, value in settings.items()})

    def _log(self, epoch: int, numbers: dict[str, float]) -> None:
        self._mlflow.log_metrics(numbers, step=epoch)

    def close(self) -> None:
        """End the run that was begun here."""
        if self._owns:
            self._owns = False
            self._mlflow.end_run()


class Listeners:
    """Several listeners that hear the same fit.

    Args:
        *listeners: Who hears it, in this order.
    """

    def __init__(self, *listeners: Listener) -> None:
        self._all = listeners

    def on_plan(self, plan: Plan) -> None:
        """Pass the plan on."""
        for one in self._all:
            one.on_plan(plan)

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Pass the start on."""
        for one in self._all:
            one.on_start(total_epochs, start_epoch)

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        """Pass the epoch on."""
        for one in self._all:
            one.on_epoch(epoch, record)

    def on_note(self, text: str) -> None:
        """Pass the remark on."""
        for one in self._all:
            one.on_note(text)

    def on_end(self, status: str) -> None:
        """Pass the end on."""
        for one in self._all:
            one.on_end(status)


def make_tracker(text: str, out: str | Path) -> Tracker:
    """Return the tracker that ``fit --track`` names.

    Args:
        text: ``tensorboard`` or ``mlflow``, and after a colon the folder of events or the tracking
            address; ``tensorboard`` writes beside the run folder when none is given.
        out: The run folder to be.
    """
    kind, _, place = text.partition(":")
    run = Path(out)
    if kind == "tensorboard":
        return TensorBoardListener(place or run.parent / "tensorboard" / run.name)
    if kind == "mlflow":
        return MLflowListener(run.name, place or None)
    raise InputError(f"cannot track with {kind!r}; choose {' or '.join(TRACKERS)}")


def _needed(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"tracking needs the package {extra}; install it with pip install 'graphham[{extra}]'"
        ) from None


def _flat(settings: Mapping[str, Any], head: str = "") -> dict[str, str]:
    """Return nested settings by dotted name, as text."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{head}{name}.")
        else:
            found[f"{head}{name}"] = str(value)
    return found
