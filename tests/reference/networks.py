"""What tests of networks share."""

from __future__ import annotations

import torch

from graphham.sampling.keys import torch_generator


def fill_parameters(module: torch.nn.Module, seed: int) -> None:
    """Draw every parameter from a normal distribution, by seed."""
    generator = torch_generator(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
