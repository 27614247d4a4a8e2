"""The registry: every method by name, loaded when asked for."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.methods.base import Method

_BOTH = frozenset({"classify", "links"})
_CLASSIFY = frozenset({"classify"})
_LINKS = frozenset({"links"})

# name -> (module:class, tasks, what it is). Tasks stand here as well as in the class, so that
# listing the methods imports none of them.
_METHODS: dict[str, tuple[str, frozenset[str], str]] = {
    "graphham": (
        "graphham:GraphHAM",
        _BOTH,
        "membership attention over a nested hierarchy of groups (default preset)",
    ),
    "graphham-no-lambda": ("graphham:NoGroupAttention", _BOTH, "GraphHAM without group attention"),
    "graphham-no-q": (
        "graphham:NoGroupContext",
        _BOTH,
        "GraphHAM whose context vectors do not depend on groups",
    ),
    "graphham-no-reg": (
        "graphham:NoConstraints",
        _BOTH,
        "GraphHAM without must-link and cannot-link constraints",
    ),
    "graphham-paper": (
        "graphham:PaperGraphHAM",
        _BOTH,
        "GraphHAM as printed in the paper (preset paper)",
    ),
    "graphsage": ("sage:GraphSAGE", _BOTH, "GraphSAGE, mean aggregator, two layers"),
    "gat": ("gat:GAT", _BOTH, "graph attention network, eight heads, two layers"),
    "graphstone": (
        "graphstone:GraphSTONE",
        _BOTH,
        "GraphSTONE: structural topics of anonymous walks guide convolutions",
    ),
    "gcn": ("gcn:GCN", _CLASSIFY, "graph convolutional network, two layers"),
    "appnp": (
        "appnp:APPNP",
        _CLASSIFY,
        "APPNP: a network's predictions spread by personalised PageRank",
    ),
    "h2gcn": (
        "h2gcn:H2GCN",
        _CLASSIFY,
        "H2GCN: neighbours at one and two steps apart, for graphs that link unlike nodes",
    ),
    "linkx": ("linkx:LINKX", _CLASSIFY, "LINKX: a network over adjacency rows and features"),
    "link": (
        "linkx:LinkRegression",
        _CLASSIFY,
        "logistic regression on adjacency rows (LINK), no features",
    ),
    "label-propagation": (
        "label_propagation:LabelPropagation",
        _CLASSIFY,
        "known labels spread over links, no features, no training",
    ),
    "hgcn": ("hgcn:HGCN", _CLASSIFY, "H-GCN: convolutions down and up four coarser graphs"),
    "logreg": ("linear:LogisticRegression", _CLASSIFY, "logistic regression on features, no graph"),
    "mlp": ("linear:MLP", _CLASSIFY, "one hidden layer on features, no graph"),
    "sgc": (
        "linear:SmoothedRegression",
        _CLASSIFY,
        "logistic regression on two-hop smoothed features (SGC)",
    ),
    "smoothed-logreg": (
        "linear:DiffusedRegression",
        _CLASSIFY,
        "logistic regression on features' main directions, own and diffused",
    ),
    "deepwalk": ("deepwalk:DeepWalk", _BOTH, "skip-gram vectors of random walks, no features"),
    "deepmincut": (
        "deepmincut:DeepMinCut",
        _BOTH,
        "communities by a normalised minimum cut, no features",
    ),
    "deepmincut-features": (
        "deepmincut:DeepMinCutFeatures",
        _BOTH,
        "the same, memberships computed from features",
    ),
    "asp2vec": ("asp2vec:Asp2Vec", _BOTH, "skip-gram with several aspects per node, no features"),
    "gne": ("gne:GNE", _BOTH, "GNE: siblings of a tree of communities on spheres, no features"),
    "spacene": (
        "spacene:SpaceNE",
        _BOTH,
        "SpaceNE: nested subspaces along a tree of communities, no features",
    ),
    "smoothed": (
        "untrained:SmoothedFeatures",
        _LINKS,
        "cosine of one-hop smoothed features, no training",
    ),
    "smoothed-svd": (
        "untrained:SmoothedDirections",
        _LINKS,
        "the same along the main directions only",
    ),
    "features": ("untrained:PlainFeatures", _LINKS, "cosine of features, no graph, no training"),
    "common-neighbors": ("untrained:CommonNeighbors", _LINKS, "number of shared neighbours"),
    "adamic-adar": ("untrained:AdamicAdar", _LINKS, "shared neighbours, rare ones counting more"),
}


def method_names() -> list[str]:
    """Return the names of all methods."""
    return list(_METHODS)


def method_rows() -> list[tuple[str, str, frozenset[str]]]:
    """Return name, one line and tasks (``classify``, ``links``) of all methods."""
    return [(name, line, tasks) for name, (_, tasks, line) in _METHODS.items()]


def class_modules() -> dict[str, str]:
    """Return the module below ``graphham.methods`` of every method's class, by class name."""
    places = (place.split(":") for place, _, _ in _METHODS.values())
    return {name: module for module, name in places}


def method_place(name: str) -> str:
    """Return where a method's class is, as ``module:class``.

    Raises:
        InputError: There is no such method.
    """
    check_method_name(name)
    return f"graphham.methods.{_METHODS[name][0]}"


def method_class(name: str) -> type[Method]:
    """Return the class of a method.

    Raises:
        InputError: There is no such method; the nearest name is suggested.
    """
    module, attribute = method_place(name).split(":")
    home = importlib.import_module(module)
    found: type[Method] = getattr(home, attribute)
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
    return method_class(name).make(**settings)


def load_method(path: str | Path, graph: Any = None) -> Method:
    """Load the fit that a run folder holds, whichever method it is of.

    Args:
        path: The run folder.
        graph: The training graph, in any form ``fit`` takes; ``explain``, ``groups_table`` and
            ``save`` need it where the run does not hold it.
    """
    from graphham.results.run_folder import Run

    return method_class(Run.open(path).method).load(path, graph)
