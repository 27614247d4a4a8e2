"""What a benchmark is told, and the trainer every benchmark of training uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.graphs import NAMED, Recipe


@dataclass(frozen=True)
class Context:
    """How a benchmark is to be run.

    Args:
        quick: Tiny graphs and few rounds: shows that everything works, measures nothing.
    """

    quick: bool = False

    def rounds(self, full: int) -> int:
        """Return the number of rounds."""
        return 2 if self.quick else full

    def recipe(self, name: str) -> Recipe:
        """Return a named graph, or a small one of the same shape when quick."""
        full = NAMED[name]
        if not self.quick:
            return full
        return Recipe(2000, min(full.mean_degree, 12.0), (2, 3), full.features, full.skew)

    def pick(self, full: int, quick: int) -> int:
        """Return a size."""
        return quick if self.quick else full


def training_settings(preset: str, **changes: Any) -> dict[str, Any]:
    """Return the settings all training benchmarks share: 256 targets, 25 x 25 neighbours.

    Args:
        preset: ``paper`` (50 walks, skip-gram with a factored table) or ``default`` (contrast).
        **changes: Dotted settings with ``__`` for the dot.
    """
    settings: dict[str, Any] = {
        "preset": preset,
        "groups": (16, 8),
        "dim": 128,
        "train.batch": "sampled",
        "train.batch_size": 256,
        "train.fanouts": (25, 25),
        "train.epochs": 4,
        "train.workers": 0,
    }
    if preset == "paper":
        settings["loss.context_table"] = "factored"
        settings["inputs.scaling"] = "standard"
    return settings | {name.replace("__", "."): value for name, value in changes.items()}


def make_trainer(graph: Any, settings: dict[str, Any], ranks: Any = None) -> Any:
    """Return a trainer on a graph, ready for its first step.

    Args:
        graph: The graph.
        settings: Dotted settings.
        ranks: The processes that train together; this one alone when not given.
    """
    from graphham.config.settings import make_config
    from graphham.methods.prepared import prepare
    from graphham.methods.starting import make_model
    from graphham.parallel.ranks import ALONE
    from graphham.training.plan import plan_fit
    from graphham.training.trainer import Trainer

    ranks = ranks or ALONE
    plan = plan_fit(graph, make_config(settings))
    config = plan.config
    prepared = prepare(graph, config, ranks)
    model, tables = make_model(graph, config, prepared, plan.table, ranks)
    return Trainer(model, graph, prepared.inputs, config, tables, ranks=ranks)


def make_encoder(graph: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    """Return a network as a saved run would restore it, and the inputs of a graph."""
    from graphham.config.settings import make_config
    from graphham.methods.prepared import prepare
    from graphham.model.network import GraphHAMNet
    from graphham.results.encoder import Encoder
    from graphham.sampling.keys import torch_generator
    from graphham.training.make_network import network_settings
    from graphham.training.plan import plan_fit

    config = plan_fit(graph, make_config(settings)).config
    prepared = prepare(graph, config)
    model = GraphHAMNet(network_settings(config), prepared.inputs.num_features)
    model.reset_parameters(torch_generator(1))
    groups = None if prepared.groups is None else prepared.groups.map
    encoder = Encoder(model.eval(), prepared.features, config, groups=groups)
    return encoder, prepared.inputs
