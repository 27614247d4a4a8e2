"""Adam as this project needs it: all tensors in one compiled call, ready at once.

The rule is that of ``torch.optim.Adam``. Its base class loads torch's compiler on first use, which
takes longer than fitting a small graph, and by default it updates one tensor after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_BETAS = (0.9, 0.999)
_EPS = 1e-8
# A safeguard: no single step throws the weights far away. Custom, not the result of a study.
MAX_GRADIENT_NORM = 5.0


class Adam:
    """Update parameters from their gradients, in place.

    Args:
        groups: Each with ``params`` and optionally ``weight_decay`` (L2, added to the gradient).
        lr: Learning rate.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], lr: float) -> None:
        self.param_groups: list[dict[str, Any]] = [
            {"weight_decay": 0.0, "lr": lr, **group, "params": list(group["params"])}
            for group in groups
        ]
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for parameter in self._parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def clip(self, largest: float) -> float:
        """Scale all gradients down so that together they are at most ``largest`` long.

        Returns:
            How long they were.
        """
        grads = [p.grad for p in self._parameters() if p.grad is not None]
        if not grads:
            return 0.0
        total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, (largest / (total + 1e-6)).clamp(max=1.0))
        return float(total)

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            moments = [self._state_of(p) for p in moved]
            steps = [one["step"] for one in moments]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                moved,
                [p.grad for p in moved],
                [one["exp_avg"] for one in moments],
                [one["exp_avg_sq"] for one in moments],
                [],
                steps,
                lr=group["lr"],
                beta1=_BETAS[0],
                beta2=_BETAS[1],
                weight_decay=group["weight_decay"],
                eps=_EPS,
                amsgrad=False,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the running means by the place of their parameter, and the groups' settings."""
        place = {p: index for index, p in enumerate(self._parameters())}
        groups: list[dict[str, Any]] = []
        for group in self.param_groups:
            settings = {k: v for k, v in group.items() if k != "params"}
            groups.append({**settings, "params": [place[p] for p in group["params"]]})
        return {
            "state": {place[p]: dict(moments) for p, moments in self.state.items()},
            "param_groups": groups,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with running means that :meth:`state_dict` returned."""
        parameters = self._parameters()
        self.state = {
            parameters[index]: {
                name: torch.as_tensor(value).to(
                    device=parameters[index].device, dtype=torch.float32, copy=True
                )
                for name, value in moments.items()
            }
            for index, moments in state["state"].items()
        }
        for group, given in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({k: v for k, v in given.items() if k != "params"})

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]
