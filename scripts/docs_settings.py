"""Write docs/settings.md: every setting with its meaning and its value in both presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from docs_results import ROOT, table
from graphham.config.readings import reading_of
from graphham.config.settings import RunConfig, make_config

PATH = ROOT / "docs" / "settings.md"
# The four ways to start: what a setting is when nobody sets it.
STARTS = [(preset, task) for preset in ("default", "paper") for task in ("embed", "classify")]
TOP = {
    "preset": "which set of values to start from",
    "task": "embed never trains on labels; classify trains on them and predicts every node",
    "seed": "every random draw follows from it",
    "device": "where torch computes: cpu, cuda, cuda:1",
}


def build() -> str:
    """Return the whole page."""
    flat = {
        start: flatten(make_config(dict(zip(("preset", "task"), start, strict=True))))
        for start in STARTS
    }
    lines = [
        "# Settings",
        "",
        "<!-- written by scripts/docs_settings.py from graphham.config.settings; do not edit -->",
        "",
        "A setting is given as `--set model.heads=4` on the command line, as a TOML file with",
        '`--config`, or as `GraphHAM(settings={"model.heads": 4})`. They apply in this order:',
        "preset, TOML file, flags or keyword arguments. An unknown name is refused and the nearest",
        "known one is suggested. One value means that both presets and both tasks share it.",
        "Numbers such as E9 name an equation of [](how-it-works.md). A setting with an entry under",
        "*reading*, such as A5, decides how the paper is understood where it can be understood in",
        "several ways; [](ambiguities.md) says what the others are.",
        "",
        "*open* means that the value is decided when the graph is known; the plan that `fit`",
        "prints and `config.toml` of the run say what was chosen.",
        "",
    ]
    for title, section, about in sections():
        rows = [
            [f"`{name}`", value_cell(flat, name), reading_of(name), meaning(name, info)]
            for name, info in section.items()
        ]
        lines += [f"## {title}", "", *([about, ""] if about else [])]
        lines += [*table(["name", "value", "reading", "meaning"], rows), ""]
    return "\n".join(lines)


def sections() -> list[tuple[str, dict[str, Any], str]]:
    """Return title, fields by dotted name and description of every section."""
    top: dict[str, Any] = {}
    inner: list[tuple[str, dict[str, Any], str]] = []
    for name, info in RunConfig.model_fields.items():
        kind: Any = info.annotation
        if hasattr(kind, "model_fields"):
            fields = {f"{name}.{n}": i for n, i in kind.model_fields.items()}
            inner.append((name, fields, str(kind.__doc__)))
        else:
            top[name] = info
    return [("The run", top, ""), *inner]


def meaning(name: str, info: Any) -> str:
    """Return what a setting means and which values it takes."""
    text = info.description or TOP.get(name, "")
    choices = literals(info.annotation)
    if choices:
        text += f" ({', '.join(f'`{choice}`' for choice in choices)})"
    return text.replace("|", "\\|")


def literals(annotation: Any) -> list[str]:
    """Return the values a setting is limited to, if it is."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return []


def value_cell(flat: dict[tuple[str, str], dict[str, Any]], name: str) -> str:
    """Return the value of a setting, told apart by preset and task only where it differs."""
    if name in ("preset", "task"):
        return f"`{flat['default', 'embed'][name]}`"
    shown = {start: show(held.get(name)) for start, held in flat.items()}
    if len(set(shown.values())) == 1:
        return shown["default", "embed"]
    parts = []
    for preset in ("default", "paper"):
        embed, classify = shown[preset, "embed"], shown[preset, "classify"]
        parts.append(
            f"{preset} {embed}" if embed == classify else f"{preset} {embed}, classify {classify}"
        )
    return "; ".join(parts)


def show(value: Any) -> str:
    """Return a value as TOML would write it; absent values are decided later."""
    if value is None:
        return "*open*"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def flatten(config: RunConfig) -> dict[str, Any]:
    """Return every setting by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in config.model_dump().items():
        inner = {f"{name}.{n}": v for n, v in value.items()} if isinstance(value, dict) else None
        flat |= inner if inner is not None else {name: value}
    return flat


def outputs() -> dict[Path, str]:
    """Return what this script writes."""
    return {PATH: build()}


if __name__ == "__main__":
    PATH.write_text(build(), "utf-8")
