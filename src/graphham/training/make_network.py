"""Say what the settings of a run mean for the network."""

from __future__ import annotations

from dataclasses import fields

from graphham.config.resolved import ResolvedConfig
from graphham.model.network_settings import NetworkSettings

# The rest has the same name in the model's section of the settings.
_ELSEWHERE = {"groups", "dim", "dropout", "group_context", "mix"}


def network_settings(config: ResolvedConfig) -> NetworkSettings:
    """Return the network's part of resolved settings."""
    same = {f.name for f in fields(NetworkSettings)} - _ELSEWHERE
    return NetworkSettings(
        groups=config.groups,
        dim=config.dim,
        dropout=config.train.dropout,
        group_context=config.loss.group_context,
        mix=config.loss.mix,
        **{name: getattr(config.model, name) for name in sorted(same)},
    )
