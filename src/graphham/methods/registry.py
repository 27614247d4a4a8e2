"""The registry: every method by name, loaded when asked for."""

from __future__ import annotations

import difflib
import importlib
import numbers
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.methods.base import Method

_BOTH = frozenset({"classify", "links"})
_CLASSIFY = frozenset({"classify"})
_LINKS = frozenset({"links"})

# name -> (module, class, one line, tasks); the line and the tasks stand here so that listing the
# methods imports none of them.
_METHODS: dict[str, tuple[str, str, str, frozenset[str]]] = {
    "graphham": (
        "graphham.methods.graphham",
        "GraphHAMMethod",
        "membership attention over a nested hierarchy of groups (default preset)",
        _BOTH,
    ),
    "graphham-no-lambda": (
        "graphham.methods.graphham",
        "NoGroupAttention",
        "GraphHAM without group attention",
        _BOTH,
    ),
    "graphham-no-q": (
        "graphham.methods.graphham",
        "NoGroupContext",
        "GraphHAM whose context vectors do not depend on groups",
        _BOTH,
    ),
    "graphham-no-reg": (
        "graphham.methods.graphham",
        "NoConstraints",
        "GraphHAM without must-link and cannot-link constraints",
        _BOTH,
    ),
    "graphham-paper": (
        "graphham.methods.graphham",
        "PaperGraphHAM",
        "GraphHAM as printed in the paper (preset paper)",
        _BOTH,
    ),
    "graphsage": (
        "graphham.methods.sage",
        "GraphSAGE",
        "GraphSAGE, mean aggregator, two layers",
        _BOTH,
    ),
    "gat": (
        "graphham.methods.gat",
        "GAT",
        "graph attention network, eight heads, two layers",
        _BOTH,
    ),
    "graphstone": (
        "graphham.methods.graphstone",
        "GraphSTONE",
        "GraphSTONE: structural topics of anonymous walks guide convolutions",
        _BOTH,
    ),
    "hgcn": (
        "graphham.methods.hgcn",
        "HGCN",
        "H-GCN: convolutions down and up four coarser graphs",
        _CLASSIFY,
    ),
    "logreg": (
        "graphham.methods.linear",
        "LogisticRegression",
        "logistic regression on features, no graph",
        _CLASSIFY,
    ),
    "mlp": (
        "graphham.methods.linear",
        "MLP",
        "one hidden layer on features, no graph",
        _CLASSIFY,
    ),
    "sgc": (
        "graphham.methods.linear",
        "SmoothedRegression",
        "logistic regression on two-hop smoothed features (SGC)",
        _CLASSIFY,
    ),
    "deepwalk": (
        "graphham.methods.deepwalk",
        "DeepWalk",
        "skip-gram vectors of random walks, no features",
        _BOTH,
    ),
    "deepmincut": (
        "graphham.methods.deepmincut",
        "DeepMinCut",
        "communities by a normalised minimum cut, no features",
        _BOTH,
    ),
    "deepmincut-features": (
        "graphham.methods.deepmincut",
        "DeepMinCutFeatures",
        "the same, memberships computed from features",
        _BOTH,
    ),
    "asp2vec": (
        "graphham.methods.asp2vec",
        "Asp2Vec",
        "skip-gram with several aspects per node, no features",
        _BOTH,
    ),
    "gne": (
        "graphham.methods.gne",
        "GNE",
        "GNE: siblings of a tree of communities on spheres, no features",
        _BOTH,
    ),
    "spacene": (
        "graphham.methods.spacene",
        "SpaceNE",
        "SpaceNE: nested subspaces along a tree of communities, no features",
        _BOTH,
    ),
    "smoothed": (
        "graphham.methods.untrained",
        "SmoothedFeatures",
        "cosine of one-hop smoothed features, no training",
        _LINKS,
    ),
    "smoothed-svd": (
        "graphham.methods.untrained",
        "SmoothedDirections",
        "the same along the main directions only",
        _LINKS,
    ),
    "features": (
        "graphham.methods.untrained",
        "PlainFeatures",
        "cosine of features, no graph, no training",
        _LINKS,
    ),
    "common-neighbors": (
        "graphham.methods.untrained",
        "CommonNeighbors",
        "number of shared neighbours",
        _LINKS,
    ),
    "adamic-adar": (
        "graphham.methods.untrained",
        "AdamicAdar",
        "shared neighbours, rare ones counting more",
        _LINKS,
    ),
}


def method_names() -> list[str]:
    """Return the names of all methods."""
    return list(_METHODS)


def method_rows() -> list[tuple[str, str, frozenset[str]]]:
    """Return name, one line and tasks (``classify``, ``links``) of all methods."""
    return [(name, line, tasks) for name, (_, _, line, tasks) in _METHODS.items()]


def method_class(name: str) -> type[Method]:
    """Return the class of a method.

    Raises:
        InputError: There is no such method; the nearest name is suggested.
    """
    check_method_name(name)
    module, attribute, _, _ = _METHODS[name]
    found: type[Method] = getattr(importlib.import_module(module), attribute)
    return found


def check_method_name(name: str) -> None:
    """Refuse a name that no method has, and suggest the nearest."""
    if name not in _METHODS:
        near = difflib.get_close_matches(str(name), _METHODS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(_METHODS)}"
        raise InputError(f"there is no method {name!r}; {hint}")


def make_method(name: str, **settings: Any) -> Method:
    """Make a method by name.

    Args:
        name: One of :func:`method_names`.
        **settings: Its settings; ``seed`` and ``dim`` are everybody's.

    Raises:
        InputError: There is no such method or setting.
    """
    chosen = method_class(name)
    known = chosen.setting_names()
    for setting in settings:
        if setting not in known:
            near = difflib.get_close_matches(setting, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise InputError(f"the method {name} has no setting {setting!r}; {hint}")
    kinds = chosen.setting_kinds()
    for setting, value in settings.items():
        if not _is_kind(value, kinds[setting]):
            wanted = kinds[setting].replace(" | None", "")
            raise InputError(
                f"the setting {setting} of {name} must be {_KINDS.get(wanted, wanted)}, "
                f"got {value!r}"
            )
    return chosen(**settings)


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "Sequence[int]": "a list of whole numbers",
}


def _is_kind(value: Any, kind: str) -> bool:
    """Tell whether a value is what an annotation asks for; what it does not know may be all."""
    if kind.endswith(" | None"):
        return value is None or _is_kind(value, kind.removesuffix(" | None"))
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        if isinstance(value, bool) or value != value:
            return False
        return isinstance(value, numbers.Integral if kind == "int" else numbers.Real)
    if kind == "str":
        return isinstance(value, str)
    if kind == "Sequence[int]":
        return isinstance(value, Iterable) and all(_is_kind(item, "int") for item in value)
    return True


def load_method(path: str | Path) -> Method:
    """Load a fitted method of any kind from its folder."""
    from graphham.methods.method_folder import load_method as load

    return load(path)
