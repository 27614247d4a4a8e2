"""Fit a method, choosing its settings on validation data only, with one budget for everyone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphham.config.presets import merge
from graphham.errors import InputError
from graphham.evaluate.cells import Cell

if TYPE_CHECKING:
    from graphham.methods.base import Method


@dataclass(frozen=True, eq=False)
class Choice:
    """The method that did best on validation data.

    Args:
        method: Fitted.
        settings: What it was made with, besides its seed.
        validation: Its validation score.
        tried: Every setting tried, with validation score and seconds.
        seconds: Time of all fits together.
    """

    method: Method
    settings: dict[str, Any]
    validation: float
    tried: list[dict[str, Any]]
    seconds: float


def choose(
    cell: Cell, fit: Callable[[Method], Method], validate: Callable[[Method], float]
) -> Choice:
    """Fit up to a budget of settings of a method and keep the one that validates best.

    Args:
        cell: Of kind ``classify`` or ``links``, which decides the search space. It says the method,
            the seed of the method's draws, how many settings may be tried (1 is the default
            settings alone), and those that every candidate keeps.
        fit: Fits a method and returns it, or returns an equal one fitted before.
        validate: Scores a fitted method on validation data; earlier settings win ties.
    """
    from graphham.methods.registry import make_method

    name, budget, settings = cell.method, cell.budget, cell.settings
    if budget < 1:
        raise InputError(f"the budget is the number of settings to try, at least 1, not {budget}")
    offered = make_method(name, **settings).search_space(cell.kind)[:budget]
    if len(offered) < budget and offered:
        raise InputError(
            f"methods offer {len(offered)} settings to choose among; give a --budget up to that"
        )
    best: Choice | None = None
    tried: list[dict[str, Any]] = []
    seen: set[str] = set()
    for candidate in offered or [{}]:
        merged = merge(candidate, settings)
        text = json.dumps(merged, sort_keys=True, default=str)
        if text in seen:  # methods with few settings repeat their default
            continue
        seen.add(text)
        wanted = make_method(name, seed=cell.seed, **merged)
        # Settings of the link score alone need no fit of their own.
        again = None if best is None else best.method.rescored(wanted.get_params())
        method = fit(wanted) if again is None else again
        score = validate(method)
        took = method.cost_["seconds"] if again is None else 0.0
        tried.append({"settings": merged, "validation": score, "seconds": took})
        if best is None or score > best.validation:
            best = Choice(method, merged, score, tried, 0.0)
    assert best is not None
    total = sum(one["seconds"] for one in tried)
    return Choice(best.method, best.settings, best.validation, tried, total)
