"""Put all single models side by side on graphs that nobody tuned ours on.

A case is a graph and a task. Of a rival with several settings (ours, its paper's, those of the
shared budget) the best on validation data counts, draw by draw; ours has its defaults. Whoever has
fewer draws than ours is placed by the difference to ours on the draws both have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.label_rows import FEWEST, OURS
from experiments.planted_cases import is_planted
from graphham.errors import InputError
from graphham.evaluate.cells import Record
from graphham.evaluate.significance import Comparison, compare
from graphham.methods.registry import method_class

# What the model was made while looking at, and planted graphs of smaller seeds than this.
DEVELOPMENT = frozenset({"cora", "citeseer"})
# Few labels of Pubmed were looked at while it was decided what to do where groups teach wrong.
_DECIDED_ON = frozenset({("pubmed", "few5"), ("pubmed", "few20")})
FRESH = 20
TASKS = {"folds": "classes", "few20": "20 labels", "few5": "5 labels", "links": "links"}
Place = tuple[str, str]  # graph, protocol
Draws = Mapping[tuple[int, int], float]


def is_unseen(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell is of a graph nobody looked at while the model was made.

    Noisy copies of a graph are not; planted graphs are with seeds kept for this.
    """
    graph = str(cell["graph"])
    if cell["protocol"] not in TASKS or "+" in graph or graph in DEVELOPMENT:
        return False
    if (graph, cell["protocol"]) in _DECIDED_ON:
        return False
    return not is_planted(graph) or int(cell["seed"]) >= FRESH


def seen(records: Iterable[Record]) -> list[Record]:
    """Return the cells of graphs the model was made with."""
    return [record for record in records if not is_unseen(record["cell"])]


@dataclass(frozen=True)
class Standing:
    """How one method does in one case.

    Args:
        mean: Its mean; on the draws of ours where it has fewer.
        rank: Among the methods with cells there; 1 is the best, equals share the mean rank.
        ahead: How far it is ahead of ours; ``None`` for ours and where no draw is shared.
    """

    mean: float
    rank: float
    ahead: Comparison | None


@dataclass(frozen=True)
class Unseen:
    """All standings.

    Args:
        places: By case, then by method.
    """

    places: Mapping[Place, Mapping[str, Standing]]

    @property
    def methods(self) -> list[str]:
        """All methods, ours first, then by mean rank; those with few cases last."""
        names = {name for found in self.places.values() for name in found}
        order = self.mean_ranks()
        half = len(self.places) / 2
        return sorted(names, key=lambda m: (m != OURS, order[m][1] < half, order[m][0], m))

    def mean_ranks(self) -> dict[str, tuple[float, int]]:
        """Return the mean rank of every method, and over how many cases."""
        ranks: dict[str, list[float]] = {}
        for found in self.places.values():
            for name, standing in found.items():
                ranks.setdefault(name, []).append(standing.rank)
        return {name: (float(np.mean(held)), len(held)) for name, held in ranks.items()}

    def rivals(self) -> dict[str, float]:
        """Return mean ranks of the others that have cells in at least half of the cases."""
        half = len(self.places) / 2
        ranks = self.mean_ranks()
        return {m: r for m, (r, count) in ranks.items() if m != OURS and count >= half}

    def losses(self) -> dict[Place, dict[str, Comparison]]:
        """Return who is ahead of ours by more than the standard error of the difference.

        With fewer than three draws there is no error worth the name, and any lead counts.
        """
        found: dict[Place, dict[str, Comparison]] = {}
        for place, standings in self.places.items():
            ahead = {m: s.ahead for m, s in standings.items() if s.ahead is not None}
            kept = {m: one for m, one in ahead.items() if one.difference > _margin(one)}
            if kept:
                order = sorted(kept.items(), key=lambda item: -item[1].difference)
                found[place] = dict(order)
        return found


def _margin(one: Comparison) -> float:
    return standard_error(one) if one.count >= FEWEST else 0.0


def standard_error(one: Comparison) -> float:
    """Return the standard error of a mean difference."""
    return one.deviation / float(np.sqrt(one.count))


def read_unseen(records: Iterable[Record]) -> Unseen:
    """Sort the finished cells of test graphs into cases; those without ours are left out."""
    held: dict[Place, dict[str, dict[tuple[int, int], tuple[float, float]]]] = {}
    for record in records:
        cell = record["cell"]
        place = (str(cell["graph"]), str(cell["protocol"]))
        if record.get("status") != "done" or not is_unseen(cell) or not _is_row(cell):
            continue
        metrics = record["metrics"]
        names = ("auc", "micro_f1", "accuracy")
        score = next((float(metrics[name]) for name in names if name in metrics), None)
        if score is None:
            continue
        validation = float(record.get("validation", float("-inf")))
        draws = held.setdefault(place, {}).setdefault(str(cell["method"]), {})
        draw = (int(cell["seed"]), int(cell["fold"]))
        if draw not in draws or validation > draws[draw][0]:
            draws[draw] = (validation, score)
    places = {}
    for place in sorted(held, key=_order):
        found = {m: {d: score for d, (_, score) in ds.items()} for m, ds in held[place].items()}
        if OURS in found and len(found) > 1:
            places[place] = _standings(found)
    return Unseen(places)


def _order(place: Place) -> tuple[int, bool, str]:
    return (list(TASKS).index(place[1]), is_planted(place[0]), place[0])


def _is_row(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell is a whole method with settings that somebody could have chosen."""
    name = str(cell["method"])
    if name == OURS:
        return not cell["settings"] and cell["budget"] == 1
    if name.startswith(f"{OURS}-no-"):
        return False
    try:
        settings = {k: v for k, v in cell["settings"].items() if k != "weigh_classes"}
        return settings in ({}, dict(method_class(name).published))
    except InputError:
        return False


def _standings(found: Mapping[str, Draws]) -> dict[str, Standing]:
    ours = found[OURS]
    means: dict[str, float] = {}
    ahead: dict[str, Comparison | None] = {}
    for name, draws in found.items():
        common = sorted(ours.keys() & draws.keys())
        means[name] = float(np.mean(list(draws.values())))
        ahead[name] = None
        if name != OURS and common:
            one = compare([draws[d] for d in common], [ours[d] for d in common])
            ahead[name] = one
            means[name] = float(np.mean(list(ours.values()))) + one.difference
    return {
        name: Standing(
            mean,
            1
            + sum(other > mean for other in means.values())
            + (sum(other == mean for other in means.values()) - 1) / 2,
            ahead[name],
        )
        for name, mean in means.items()
    }
