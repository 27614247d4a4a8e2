"""An ensemble beside the network: members that see a node's own features, or its surroundings'.

Attention layers mix what a node says of itself with what its neighbours say, and trained on few
labels they rarely keep both apart. Two small networks that each see one side only make other
mistakes than the large one, so the mean of all three is more often right than any of them. Where
labels are few two more look further: one learns from all nodes by agreeing with itself, the other
has hardly anything to learn (:mod:`graphham.training.spectral_member`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.losses import class_loss, sharpened
from graphham.sampling.keys import derive_key, torch_generator
from graphham.sampling.random_stream import Source, hidden, make_source, uniform
from graphham.training.epochs import EpochLoop, Score
from graphham.training.optimizer import Adam
from graphham.training.spectral_member import SpectralMember, mixed_averages
from graphham.training.stacking import stack_weights
from graphham.training.supervision import Truth


@dataclass(frozen=True)
class View:
    """What one opinion sees, and how it learns.

    Args:
        steps: How often features are averaged over a node and its neighbours.
        is_mixed: Whether the mean of 0 to ``steps`` averages is seen, not only the last, each link
            counted by the degrees of both its ends.
        silent: Share of the nodes whose features are withheld from a training pass.
        weight: What the opinion counts before the validation labels have been asked.
        gain: Scales what is seen: the smaller, the more the decay of weights holds back.
        hidden: Width of the hidden layer.
        rate: Step size.
        epochs: Most epochs of training.
        patience: Epochs without a better validation score after which it stops.
    """

    steps: int
    is_mixed: bool = False
    silent: float = 0.0
    weight: float = 0.5
    gain: float = 1.0
    hidden: int = 64
    rate: float = 0.01
    epochs: int = 200
    patience: int = 60


_VIEWS = {"own": View(0), "around": View(2)}
# A node with few labels near has to be reached over several links; withholding half of the nodes
# makes passes differ, so that nodes without labels teach which answers hold (Feng et al. 2020).
_FEW_VIEWS = {
    "own": View(0, weight=0.25),
    "around": View(2, weight=0.25),
    "far": View(
        8,
        is_mixed=True,
        silent=0.5,
        weight=1.0,
        gain=0.25,
        hidden=32,
        rate=0.03,
        epochs=300,
        patience=100,
    ),
}
# What the network counts before validation, and how many validation labels it takes to move the
# weights by about one: with many labels to train on, and with few.
_NETWORK = {False: 1.0, True: 0.5}
_PRIOR = {False: 10.0, True: 30.0}
_OUTLINE = 1.0  # what the outline counts before validation
# Passes compared with each other, what their agreement weighs, and the epochs it takes to count.
_PASSES = 2
_AGREEMENT = 3.0
_WARM_UP = 100
_KEEP = 0.95  # share of the running average of the weights that is old
# The numbers of this module were set by trial; the runs are not kept.
# Small graphs overfit: dropout and weight decay as those of the network itself (config/resolve.py),
# stronger below so many nodes or with few labels.
_SMALL_NODES = 10_000
_DROP, _DROP_LARGE = 0.5, 0.3
_DECAY, _LEAST_DECAY = 5e-4, 2e-5
_TUNED_NODES = 2708  # Cora, whose decay it is; larger graphs take less in proportion
_EVALUATE_EVERY = 5  # a validation costs as much as an epoch


class Member(nn.Module):
    r"""A network of one hidden layer on features averaged over neighbours.

    .. math:: V\, \mathrm{relu}(S^{steps} X W + b) + c

    A mixed view has the mean of :math:`S^0 X` to :math:`S^{steps} X` in place of the last, S then
    being symmetric.

    Args:
        num_features: Width of the features X.
        num_classes: Number of classes.
        view: What is seen: how often the average S over a node and its neighbours is taken.
    """

    def __init__(self, num_features: int, num_classes: int, view: View) -> None:
        super().__init__()
        self.view = view
        self.weight = nn.Parameter(torch.empty(num_features, view.hidden))
        self.bias = nn.Parameter(torch.zeros(view.hidden))
        self.classifier = nn.Linear(view.hidden, num_classes)

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
            generator: Source of that dropout and of who is silent; ``None`` switches both off.
        """
        # Averages of products are products of averages, and there are fewer columns afterwards.
        x = features.matmul(self.weight)
        if generator is not None and self.view.silent:
            heard = uniform((len(x), 1), generator, x) >= self.view.silent
            x = x * heard / (1 - self.view.silent)
        seen = self._seen(x, block)
        logits: Tensor = self.classifier(hidden(seen, self.bias, drop, generator))
        return logits

    def _seen(self, x: Tensor, block: Block) -> Tensor:
        """Return ``(num_nodes, hidden)`` what the view shows of one row a node."""
        if not self.view.is_mixed:
            for _ in range(self.view.steps):
                x = mean_aggregate(x, block)
            return x
        return mixed_averages(x, block, self.view.steps) * self.view.gain


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The small networks of one fit.

    Args:
        networks: By name.
        weights: What the network and each opinion count.
    """

    networks: dict[str, Member | SpectralMember]
    weights: Tensor

    @classmethod
    def learn(
        cls, inputs: NodeInputs, block: Block, truth: Truth, width: int, seed: int
    ) -> Ensemble:
        """Train all on the training labels; validation labels say when to stop.

        Args:
            inputs: Inputs of all nodes.
            block: The whole graph.
            truth: Labels.
            width: Number of classes.
            seed: The run's seed.
        """
        members: dict[str, Member | SpectralMember] = {}
        views = _FEW_VIEWS if truth.is_few else _VIEWS
        for name, view in views.items():
            network = Member(inputs.num_features, width, view)
            network.reset_parameters(torch_generator(derive_key(seed, "opinion", name)))
            _MemberLoop(network, inputs, block, truth, derive_key(seed, "opinions", name)).run()
            members[name] = network.eval()
        weights = [_NETWORK[truth.is_few], *(view.weight for view in views.values())]
        if truth.is_few:
            key = derive_key(seed, "opinion", "outline")
            members["outline"] = SpectralMember.learn(inputs, block, truth, width, key).eval()
            weights.append(_OUTLINE)
        return cls(members, torch.tensor(weights))

    def weighed(self, logits: Tensor, inputs: NodeInputs, block: Block, truth: Truth) -> Ensemble:
        """Let the validation labels say what the network and each opinion count.

        Args:
            logits: ``(num_nodes, num_classes)`` what the network says.
            inputs: Inputs of all nodes.
            block: The whole graph.
            truth: Labels.
        """
        if not len(truth.validation):
            return self
        stacked = self.member_logits(logits, inputs, block)[:, truth.validation].double()
        targets = truth.targets[truth.validation]
        weights = stack_weights(stacked, targets, self.weights.double(), _PRIOR[truth.is_few])
        return Ensemble(self.networks, weights.float())

    def expected(self, inputs: NodeInputs, block: Block, is_multi: bool) -> Tensor | None:
        """Return ``(num_nodes, num_classes)`` what the views made for few labels expect, if any."""
        asked = [self.networks[name] for name in ("far", "outline") if name in self.networks]
        if not asked:
            return None
        with torch.no_grad():
            stacked = torch.stack([each(inputs.rows(None), block, 0.0, None) for each in asked])
        return (stacked.sigmoid() if is_multi else stacked.softmax(2)).mean(0)

    def member_logits(self, logits: Tensor, inputs: NodeInputs, block: Block) -> Tensor:
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
        return torch.einsum("v,vnc->nc", self.weights, self.member_logits(logits, inputs, block))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save."""
        tensors = {
            f"opinions.{name}.{key}": value.detach()
            for name, network in self.networks.items()
            for key, value in network.state_dict().items()
        }
        return {**tensors, "opinions.weights": self.weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Ensemble | None:
        """Rebuild from saved tensors, ``None`` where a run has no opinions."""
        members: dict[str, Member | SpectralMember] = {}
        for name in (*_FEW_VIEWS, "outline"):
            prefix = f"opinions.{name}."
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            if not own:
                continue
            if name == "outline":
                width, classes = own["weight"].shape
                members[name] = SpectralMember(len(own["directions"]), classes, width)
            else:
                shape = len(own["weight"]), len(own["classifier.bias"])
                members[name] = Member(*shape, _FEW_VIEWS[name])
            members[name].load_state_dict(
                {key: torch.as_tensor(value) for key, value in own.items()}
            )
            members[name].eval()
        return cls(members, torch.as_tensor(state["opinions.weights"])) if members else None


class _MemberLoop(EpochLoop):
    """Trains one member with dropout and keeps the averaged weights that validate best."""

    def __init__(
        self, network: Member, inputs: NodeInputs, block: Block, truth: Truth, key: Any
    ) -> None:
        view = network.view
        super().__init__(network, epochs=view.epochs, average=_KEEP, patience=view.patience)
        self.network, self.inputs, self.block = network, inputs, block
        self.truth, self.key = truth, key
        count = len(truth.training)
        self.drop = _DROP if count < _SMALL_NODES or truth.is_few else _DROP_LARGE
        decay = _DECAY
        if not truth.is_few:
            decay = _DECAY * min(1.0, _TUNED_NODES / count) + _LEAST_DECAY
        self.optimizer = Adam([{"params": network.parameters(), "weight_decay": decay}], view.rate)

    def is_due(self, epoch: int) -> bool:
        """Whether the member is validated after this epoch."""
        return bool(len(self.truth.validation)) and epoch % _EVALUATE_EVERY == _EVALUATE_EVERY - 1

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the one step of an epoch."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = _loss(self.network, self.inputs, self.block, self.truth, self.drop, epoch, self.key)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return {}

    def score(self) -> Score:
        """Return accuracy (micro-F1 for several labels) and negative loss on validation labels."""
        with torch.no_grad():
            logits = self.network(self.inputs.rows(None), self.block, 0.0, None)
        return self.truth.score(logits[self.truth.validation])


def _loss(
    network: Member,
    inputs: NodeInputs,
    block: Block,
    truth: Truth,
    drop: float,
    epoch: int,
    key: Any,
) -> Tensor:
    """Return the class loss of an epoch's passes, and how far passes that differ are apart."""
    stacked = []
    passes = _PASSES if network.view.silent else 1
    for number in range(passes):
        step = derive_key(key, "step", epoch * passes + number)
        features = inputs.rows(None, drop, derive_key(step, "features"))
        generator = make_source(derive_key(step, "hidden"), "cpu")
        stacked.append(network(features, block, drop, generator))
    targets = truth.targets[truth.training]
    loss = torch.stack([class_loss(each[truth.training], targets) for each in stacked]).mean()
    if passes == 1:
        return loss
    probabilities = (
        torch.stack(stacked).sigmoid() if truth.is_multi else torch.stack(stacked).softmax(2)
    )
    pseudo_labels = sharpened(probabilities.detach().mean(0), truth.is_multi)
    apart = (probabilities - pseudo_labels).square().sum(2).mean()
    return loss + _AGREEMENT * min(1.0, epoch / _WARM_UP) * apart
