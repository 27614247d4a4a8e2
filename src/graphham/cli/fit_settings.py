"""What ``graphham fit`` was asked: which method and which settings, from file, flags and --set."""

from __future__ import annotations

import contextlib
import functools
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from graphham.cli.options import option
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.methods.base import Method

Settings: TypeAlias = dict[str, Any]

_DEFAULT = "graphham"
# Options that only GraphHAM has.
_OWN = ("groups", "preset", "device", "workers", "processes", "resume")

_TASK_HELP = "embed never trains on labels; classify trains on them and predicts all nodes."
_GROUPS_HELP = "Groups per level, fine to coarse; chosen from the graph if not given."
_PRESET_HELP = "The best settings we know, or the paper's as literally as they train."
_TREE_HELP = "Tree for gne and spacene: nested JSON, or an edge list of 'parent child' lines."
_WORKERS_HELP = "Threads that prepare batches; the result does not depend on it."
_PROCESSES_HELP = "Processes that share a sampled fit; the result depends on train.shards alone."


model_option = functools.partial(option, "Model and training")


@dataclass(frozen=True)
class Flags:
    """The options of ``graphham fit`` that say what to fit; ``None`` where not given."""

    task: Annotated[str | None, model_option("--task", _TASK_HELP, "embed|classify")] = None
    groups: Annotated[str | None, model_option("--groups", _GROUPS_HELP, "12,5")] = None
    dim: Annotated[
        int | None, model_option("--dim", "Width of the embedding (128), all layers.")
    ] = None
    epochs: Annotated[int | None, model_option("--epochs", "Passes over the nodes.")] = None
    seed: Annotated[int | None, model_option("--seed", "Every draw follows it.")] = None
    preset: Annotated[str | None, model_option("--preset", _PRESET_HELP, "default|paper")] = None
    tree: Annotated[str | None, model_option("--tree", _TREE_HELP, "FILE")] = None
    device: Annotated[str | None, model_option("--device", "cpu, cuda, cuda:1, ...")] = None
    workers: Annotated[int | None, model_option("--workers", _WORKERS_HELP)] = None
    processes: Annotated[int | None, model_option("--processes", _PROCESSES_HELP, min=1)] = None


# The default of a command's ``flags``, and what nobody gave.
NO_FLAGS = Flags()


@dataclass(frozen=True)
class WantedFit:
    """A fit to make.

    Args:
        name: The method.
        task: ``embed`` or ``classify``; what the method does by itself when ``None``.
        make: Makes the method; the settings have been checked, nothing heavy was imported.
        given: All sources of GraphHAM's settings, to compare with a run that is resumed.
    """

    name: str
    task: str | None
    make: Callable[[], Method]
    given: list[Settings]

    @property
    def is_graphham(self) -> bool:
        """Whether it is GraphHAM in one of its forms."""
        return self.name.startswith(_DEFAULT)


def wanted_fit(
    method: str | None,
    config: str | None,
    settings: list[str],
    flags: Flags,
    resume: bool = False,
) -> WantedFit:
    """Put together what was asked, flags winning over --set and --set over the file.

    Raises:
        InputError: There is no such method or setting, or it has no such option.
    """
    name = _method_name(method, config)
    kept, more = _read_settings(config), parse_settings(settings)
    if name.startswith(_DEFAULT):
        return _wanted_graphham(name, kept, more, flags)
    given = {flag: value for flag, value in asdict(flags).items() if value is not None}
    given |= {"resume": True} if resume else {}
    for flag in _OWN:
        if flag in given:
            raise InputError(f"--{flag} is an option of GraphHAM; the method {name} has none")
    task = given.pop("task", kept.pop("task", None))
    if task not in (None, "embed", "classify"):
        raise InputError(f"there is no task {task!r}; choose embed or classify")
    from graphham.methods.registry import make_method

    made = make_method(name, **{**kept, **more, **given})
    return WantedFit(name, task, lambda: made, [])


def _wanted_graphham(name: str, kept: Settings, more: Settings, flags: Flags) -> WantedFit:
    from graphham.config.settings import make_config

    if flags.tree is not None:
        raise InputError(
            "--tree is for the methods gne and spacene; GraphHAM finds its groups by itself"
        )
    preset, fixed = flags.preset, {}
    if name != _DEFAULT:
        from graphham.methods.registry import method_class

        form: Any = method_class(name)
        own = form.setting_defaults()["preset"]
        if preset not in (None, own):
            raise InputError(f"{name} has the preset {own}, not {preset}; leave one out")
        preset, fixed = own, dict(form.fixed)
    given = [
        kept,
        more,
        {
            "preset": preset,
            "task": flags.task,
            "groups": parse_groups(flags.groups),
            "dim": flags.dim,
            "train.epochs": flags.epochs,
            "seed": flags.seed,
            "device": flags.device,
            "train.workers": flags.workers,
        },
        fixed,
    ]
    config = make_config(*given)
    check_device(config.device)

    def make() -> Method:
        from graphham.methods.graphham import GraphHAM
        from graphham.methods.registry import method_class

        form = method_class(name)
        assert issubclass(form, GraphHAM)
        return form.from_config(config)

    return WantedFit(name, config.task, make, given)


def _method_name(method: str | None, config: str | None) -> str:
    """Return the method to fit: the one named, the one of the config, or GraphHAM."""
    kept = None
    if config is not None:
        from graphham.config.settings import read_config

        # Whoever reads the settings themselves says what is wrong with the file.
        with contextlib.suppress(InputError):
            kept = read_config(config).get("method")
    if method is not None and kept is not None and method != kept:
        raise InputError(
            f"{config} holds settings of the method {kept}, not of {method}; leave one of them out"
        )
    name = method or kept or _DEFAULT
    if name == _DEFAULT:
        return name
    from graphham.methods.registry import check_method_name, method_rows

    check_method_name(name)
    tasks = {found: tasks for found, _, tasks in method_rows()}[name]
    if tasks == {"links"}:
        raise InputError(
            f"the method {name} learns nothing and only scores pairs of nodes, so there is no run "
            f"to write; measure it with 'graphham evaluate links GRAPH --methods {name}'"
        )
    return str(name)


def parse_groups(text: str | None) -> tuple[int, ...] | None:
    """Read ``12,5`` as the groups of each level."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--groups {text!r} is not a list of whole numbers; write it like 12,5"
        ) from None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; values are TOML, and plain words are text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--set {pair!r} is not NAME=VALUE; write it like train.lr=0.005")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that this machine does not have."""
    if name == "cpu":
        return  # do not load torch to learn what everybody has
    import torch

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(
            f"the device {name!r} cannot be used here; leave --device out to compute on the cpu"
        ) from None


def _read_settings(path: str | Path | None) -> Settings:
    """Read settings from TOML; what a run's ``config.toml`` says besides them is left out."""
    if path is None:
        return {}
    from graphham.config.settings import read_config

    return {k: v for k, v in read_config(path).items() if k not in ("graph", "method")}


def check_begun(out: Path, given: list[Settings]) -> None:
    """Refuse to resume a run with other settings than it was started with."""
    from graphham.config.settings import make_config

    partial = out.with_name(f"{out.name}.partial")
    begun = next((f for f in (partial, out) if (f / "config.toml").is_file()), None)
    if begun is None:
        return  # there is nothing to resume, and whoever opens the run says so
    kept = _read_settings(begun / "config.toml")
    before, after = (_flat(make_config(kept, *more).to_dict()) for more in ([], given))
    for name, value in after.items():
        if before.get(name) != value:
            raise InputError(
                f"a resumed run keeps its settings, but {name} was {before.get(name)!r} and is "
                f"now {value!r}; leave it out, or start a new run with another --out"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return flat
