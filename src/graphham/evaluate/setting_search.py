"""Try settings of GraphHAM on one graph and keep what is best at which cost.

Every finished trial is a line of ``trials.jsonl``, so that a search goes on where it stopped.
Optuna proposes settings where it is installed; otherwise they are drawn at random by the number of
the trial, the same ones whenever the search is repeated.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from graphham.errors import InputError
from graphham.evaluate.candidates import uniform_queries
from graphham.evaluate.links import score_queries
from graphham.evaluate.metrics import link_metrics
from graphham.evaluate.splits import edge_split
from graphham.graph.graph import Graph
from graphham.methods.graphham import GraphHAM
from graphham.sampling.keys import derive_key
from graphham.system.atomic import write_bytes

Task = Literal["embed", "classify"]
Settings = dict[str, Any]
TRIALS_FILE, BEST_FILE = "trials.jsonl", "best.toml"
_FORMAT = "graphham-search"
# The better direction of what a trial measures.
OBJECTIVES: dict[str, Literal["max", "min"]] = {"score": "max", "seconds": "min", "dim": "min"}
SPACE: dict[str, Sequence[Any]] = {
    "dim": (32, 64, 128, 256),
    "train.epochs": (20, 40, 80),
    "train.lr": (0.003, 0.005, 0.01, 0.02),
    "model.heads": (1, 2, 4),
    "train.dropout": (0.0, 0.2, 0.4),
    "model.residual": (False, True),
}


@dataclass(frozen=True)
class Trial:
    """One fit with settings of its own.

    Args:
        number: Place in the search, from 0; the first trial has the usual settings.
        settings: By dotted name, what differs from the usual.
        values: ``score`` on held-out links or labels, ``seconds`` of the fit and ``dim``.
        error: Why there are no values, or nothing.
    """

    number: int
    settings: Settings
    values: dict[str, float]
    error: str = ""


@dataclass(frozen=True, eq=False)
class SettingSearch:
    """A search for settings, kept in a folder.

    Args:
        graph: The graph.
        folder: Where trials are kept; one of an earlier search of the same graph is gone on with.
        task: ``embed`` is scored on held-out links, ``classify`` on validation labels.
        seed: Decides folds, draws and fits.
        space: Values to try by setting.
        sampler: ``random``, ``optuna``, or ``auto`` for optuna where it is installed.
    """

    graph: Graph
    folder: Path
    task: Task = "embed"
    seed: int = 0
    space: Mapping[str, Sequence[Any]] | None = None
    sampler: str = "auto"

    def run(self, trials: int, on_trial: Callable[[Trial], None] | None = None) -> list[Trial]:
        """Make trials until there are ``trials`` of them; return all, earlier ones included.

        Args:
            trials: How many there shall be in all.
            on_trial: Hears about each trial that was made now.
        """
        if trials < 1:
            raise InputError(f"a search needs at least 1 trial, got {trials}")
        if self.task == "classify" and self.graph.labels is None:
            raise InputError("the task classify needs labels; give --labels, or leave --task out")
        propose = _optuna if self._uses_optuna() else _random
        known = self._open()
        while len(known) < trials:
            settings = propose(self, known) if known else {}
            trial = self._try(len(known), settings)
            with (self.folder / TRIALS_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial.__dict__) + "\n")
            known.append(trial)
            self._write_best(known)
            if on_trial is not None:
                on_trial(trial)
        return known

    def _uses_optuna(self) -> bool:
        if self.sampler not in ("auto", "random", "optuna"):
            raise InputError(f"there is no sampler {self.sampler!r}; choose auto, random or optuna")
        if self.sampler == "random":
            return False
        is_there = importlib.util.find_spec("optuna") is not None
        if self.sampler == "optuna" and not is_there:
            raise InputError(
                "the sampler optuna needs the package optuna; install it with pip install "
                "'graphham[tune]', or give --sampler random"
            )
        return is_there

    def _about(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "fingerprint": self.graph.fingerprint(),
            "task": self.task,
            "seed": self.seed,
            "space": {name: list(values) for name, values in (self.space or SPACE).items()},
        }

    def _open(self) -> list[Trial]:
        """Return the trials kept in the folder, or begin one; refuse those of another search."""
        path = self.folder / TRIALS_FILE
        if not path.exists():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_bytes(path, (json.dumps(self._about()) + "\n").encode())
            except OSError as error:
                raise InputError(f"cannot write {path}: {error.strerror}") from None
            return []
        lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
        try:
            about = json.loads(lines[0]) if lines else {}
        except ValueError:
            about = {}
        if about != self._about():
            raise InputError(
                f"{path} belongs to a search of another graph, task, seed or space; choose another "
                f"--out"
            )
        # A line cut short by a kill is made again.
        whole = [line for line in lines[1:] if line.endswith("\n")]
        if len(whole) + 1 < len(lines):
            write_bytes(path, "".join([lines[0], *whole]).encode())
        try:
            return [Trial(**json.loads(line)) for line in whole]
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}); choose another --out") from error

    def _try(self, number: int, settings: Settings) -> Trial:
        named = {k: v for k, v in settings.items() if k == "dim"}
        others = {k: v for k, v in settings.items() if k != "dim"}
        model = GraphHAM(seed=self.seed, task=self.task, settings=others or None, **named)
        began = time.perf_counter()
        try:
            score = self._score(model)
        except InputError as error:  # settings that do not go together are an answer too
            return Trial(number, settings, {}, str(error)[:300])
        seconds = time.perf_counter() - began
        values = {"score": score, "seconds": seconds, "dim": float(model.embedding_.shape[1])}
        return Trial(number, settings, {k: round(v, 6) for k, v in values.items()})

    def _score(self, model: GraphHAM) -> float:
        if self.task == "classify":
            model.fit(self.graph, verbose=False)
            return float(model.validation_ or 0.0)
        split = edge_split(self.graph, seed=self.seed)
        model.fit(split.graph, verbose=False)
        key = derive_key(self.seed, "link queries", "tune", 0)
        asked = uniform_queries(self.graph, split.validation, key)
        found = link_metrics(score_queries(model, asked))
        return (found["auc"] + found["mrr"]) / 2

    def _write_best(self, trials: Sequence[Trial]) -> None:
        import tomli_w

        fine = [trial for trial in trials if trial.values]
        if not fine:
            return
        best = max(fine, key=lambda trial: trial.values["score"])
        nested: dict[str, Any] = {"task": self.task, "seed": self.seed}
        for name, value in best.settings.items():
            section, _, key = name.rpartition(".")
            (nested.setdefault(section, {}) if section else nested)[key] = value
        write_bytes(self.folder / BEST_FILE, tomli_w.dumps(nested).encode())


def frontier(
    trials: Sequence[Trial], objectives: Sequence[str] = ("score", "seconds")
) -> list[Trial]:
    """Return the trials that no other beats in every objective, the best score first.

    Args:
        trials: All trials; those without values are left out.
        objectives: Of ``score``, ``seconds`` and ``dim``.
    """
    unknown = [name for name in objectives if name not in OBJECTIVES]
    if unknown or not objectives:
        raise InputError(f"objectives are some of {', '.join(OBJECTIVES)}, got {list(objectives)}")
    fine = [trial for trial in trials if trial.values]
    signs = np.array([1.0 if OBJECTIVES[name] == "max" else -1.0 for name in objectives])
    rows = [[trial.values[name] for name in objectives] for trial in fine]
    values = np.array(rows).reshape(len(fine), len(objectives))
    values = values * signs
    kept = [
        trial
        for trial, own in zip(fine, values, strict=True)
        if not ((values >= own).all(1) & (values > own).any(1)).any()
    ]
    return sorted(kept, key=lambda trial: (-trial.values["score"], trial.number))


def _random(search: SettingSearch, known: Sequence[Trial]) -> Settings:
    """Draw settings by the number of the trial; draw again while they were tried already."""
    tried = [trial.settings for trial in known]
    drawn: Settings = {}
    for turn in range(50):
        words = derive_key(search.seed, "setting search", len(known), turn)
        rng = np.random.default_rng(np.atleast_1d(np.asarray(words, dtype=np.uint64)))
        drawn = {
            name: values[int(rng.integers(len(values)))]
            for name, values in (search.space or SPACE).items()
        }
        if drawn not in tried:
            break
    return drawn


def _optuna(search: SettingSearch, known: Sequence[Trial]) -> Settings:
    """Ask optuna, told of every trial so far; what it knows is in our file, not in its storage."""
    optuna: Any = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {
        name: optuna.distributions.CategoricalDistribution(tuple(values))
        for name, values in (search.space or SPACE).items()
    }
    sampler = optuna.samplers.TPESampler(seed=search.seed * 100_003 + len(known))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in known:
        if trial.values and trial.settings:
            made = optuna.trial.create_trial(
                params=trial.settings, distributions=space, value=trial.values["score"]
            )
            study.add_trial(made)
    return dict(study.ask(space).params)
