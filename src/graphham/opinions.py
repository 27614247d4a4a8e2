"""Second opinions on a node's class: its own features, and its surroundings' features.

Attention layers mix what a node says of itself with what its neighbours say, and trained on few
labels they rarely keep both apart. Two small networks that each see one side only make other
mistakes than the large one, so the mean of all three is more often right than any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphham.adam import Adam
from graphham.blocks import Block
from graphham.draws import Source, hidden, make_source
from graphham.inputs import FeatureRows, NodeInputs
from graphham.keys import derive_key, torch_generator
from graphham.losses import class_loss
from graphham.objective import Truth
from graphham.ops import mean_aggregate
from graphham.weighing import weigh

# How often features are averaged over neighbours before each opinion is formed.
_STEPS = {"own": 0, "around": 2}
# What the network and each opinion count before the validation labels have been asked, and how many
# of those labels it takes to move the weights by about one.
_WEIGHTS = (1.0, 0.5, 0.5)
_PRIOR = 10.0
_HIDDEN = 64
_EPOCHS = 200
_PATIENCE = 60
_RATE = 0.01
_KEEP = 0.95  # share of the running average of the weights that is old


class Opinion(nn.Module):
    r"""A network of one hidden layer on features averaged ``steps`` times over neighbours.

    .. math:: V\, \mathrm{relu}(S^{steps} X W + b) + c

    Args:
        num_features: Width of the features X.
        num_classes: Number of classes.
        steps: How often the average S over a node and its neighbours is taken.
    """

    def __init__(self, num_features: int, num_classes: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.weight = nn.Parameter(torch.empty(num_features, _HIDDEN))
        self.bias = nn.Parameter(torch.zeros(_HIDDEN))
        self.classifier = nn.Linear(_HIDDEN, num_classes)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all parameters."""
        nn.init.xavier_uniform_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)
        nn.init.xavier_uniform_(self.classifier.weight, generator=generator)
        nn.init.zeros_(self.classifier.bias)

    def forward(
        self, features: FeatureRows, block: Block, drop: float, generator: Source | None
    ) -> Tensor:
        """Return ``(num_nodes, num_classes)`` logits.

        Args:
            features: Features of all nodes.
            block: The whole graph.
            drop: Share of hidden values dropped.
            generator: Source of that dropout; ``None`` switches it off.
        """
        # Averages of products are products of averages, and there are fewer columns afterwards.
        x = features.matmul(self.weight)
        for _ in range(self.steps):
            x = mean_aggregate(x, block)
        logits: Tensor = self.classifier(hidden(x, self.bias, drop, generator))
        return logits


@dataclass(frozen=True, eq=False)
class Opinions:
    """The small networks of one fit.

    Args:
        networks: By name.
        weights: What the network and each opinion count.
    """

    networks: dict[str, Opinion]
    weights: Tensor

    @classmethod
    def learn(
        cls, logits: Tensor, inputs: NodeInputs, block: Block, truth: Truth, seed: int
    ) -> Opinions:
        """Train both on the training labels; validation labels say when to stop and what counts.

        Args:
            logits: ``(num_nodes, num_classes)`` what the network says.
            inputs: Inputs of all nodes.
            block: The whole graph.
            truth: Labels.
            seed: The run's seed.
        """
        held: dict[str, Opinion] = {}
        for name, steps in _STEPS.items():
            network = Opinion(inputs.num_features, logits.shape[1], steps)
            network.reset_parameters(torch_generator(derive_key(seed, "opinion", name)))
            held[name] = _train(network, inputs, block, truth, derive_key(seed, "opinions", name))
        start = cls(held, torch.tensor(_WEIGHTS))
        if not len(truth.validation):
            return start
        said = start.said(logits, inputs, block)[:, truth.validation]
        return cls(held, _weigh(said, truth.targets[truth.validation]))

    def said(self, logits: Tensor, inputs: NodeInputs, block: Block) -> Tensor:
        """Return ``(voices, num_nodes, num_classes)`` logits, the network's first."""
        with torch.no_grad():
            others = [each(inputs.rows(None), block, 0.0, None) for each in self.networks.values()]
        return torch.stack([logits.cpu(), *(one.cpu() for one in others)])

    def joined(self, logits: Tensor, inputs: NodeInputs, block: Block) -> Tensor:
        """Return the weighted sum of the network's logits and those of the opinions.

        In probabilities this is a product of experts: a class that one of them rules out is out.

        Args:
            logits: ``(num_nodes, num_classes)`` what the network says.
            inputs: Inputs of the same nodes.
            block: The whole graph.
        """
        return torch.einsum("v,vnc->nc", self.weights, self.said(logits, inputs, block))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save."""
        tensors = {
            f"opinions.{name}.{key}": value.detach()
            for name, network in self.networks.items()
            for key, value in network.state_dict().items()
        }
        return {**tensors, "opinions.weights": self.weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Opinions | None:
        """Rebuild from saved tensors, ``None`` where a run has no opinions."""
        held: dict[str, Opinion] = {}
        for name, steps in _STEPS.items():
            prefix = f"opinions.{name}."
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            if not own:
                return None
            network = Opinion(len(own["weight"]), len(own["classifier.bias"]), steps)
            network.load_state_dict({key: torch.as_tensor(value) for key, value in own.items()})
            held[name] = network.eval()
        return cls(held, torch.as_tensor(state["opinions.weights"]))


def _weigh(said: Tensor, wanted: Tensor) -> Tensor:
    """Return the ``(voices,)`` weights, none below zero, under which labels are likeliest.

    Args:
        said: ``(voices, rows, num_classes)`` logits.
        wanted: Labels of the rows.
    """
    prior = torch.tensor(_WEIGHTS, dtype=torch.float64)
    return weigh(said, wanted, prior, _PRIOR).float()


def _train(network: Opinion, inputs: NodeInputs, block: Block, truth: Truth, key: Any) -> Opinion:
    """Train with dropout and keep the averaged weights that validate best."""
    count = len(truth.training)
    # Small graphs overfit; see the rates of the network itself.
    drop = 0.5 if count < 10_000 else 0.3
    decay = 5e-4 * min(1.0, 2708 / count) + 2e-5
    optimizer = Adam([{"params": network.parameters(), "weight_decay": decay}], _RATE)
    average = {name: value.clone() for name, value in network.state_dict().items()}
    best, best_score, best_epoch = dict(average), (-1.0, 0.0), 0
    wanted = truth.targets[truth.training]
    for epoch in range(_EPOCHS):
        step = derive_key(key, "step", epoch)
        features = inputs.rows(None, drop, derive_key(step, "features"))
        generator = make_source(derive_key(step, "hidden"), "cpu")
        logits = network(features, block, drop, generator)[truth.training]
        optimizer.zero_grad(set_to_none=True)
        class_loss(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        keep = min(_KEEP, epoch / (epoch + 1))
        for name, value in network.state_dict().items():
            average[name].lerp_(value, 1 - keep)
        if not len(truth.validation) or epoch % 5 != 4:
            continue
        score = _score(network, average, inputs, block, truth)
        if score > best_score:
            best_score, best_epoch = score, epoch
            best = {name: value.clone() for name, value in average.items()}
        if epoch - best_epoch >= _PATIENCE:
            break
    network.load_state_dict(best if len(truth.validation) else average)
    return network.eval()


def _score(
    network: Opinion, weights: dict[str, Tensor], inputs: NodeInputs, block: Block, truth: Truth
) -> tuple[float, float]:
    """Return accuracy (micro-F1 for several labels) and negative loss on the validation labels."""
    held = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    with torch.no_grad():
        logits = network(inputs.rows(None), block, 0.0, None)[truth.validation]
    network.load_state_dict(held)
    return truth.score(logits)
