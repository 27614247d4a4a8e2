"""The page's files: its JavaScript modules in order, its index page, and one script of it all.

A file ``static/view_*.js`` is a view of the hierarchy and registers itself; nothing else names it.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from importlib.resources import files
from typing import Any

from graphham.report.plotlyjs import FIGURE_TOOLS, figure_tools

PLOTLY = "plotly.min.js"
MAIN = "main.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_SCRIPTS = "<!-- scripts -->"


def static_folder() -> Any:
    """Return the folder of the page's own files."""
    return files("graphham.explore") / "static"


def read_modules() -> dict[str, str]:
    """Return the modules by name, each after the ones it imports; the views precede ``main.js``."""
    scripts = (file for file in static_folder().iterdir() if file.name.endswith(".js"))
    modules = {file.name: file.read_text("utf-8") for file in scripts}
    modules[FIGURE_TOOLS] = figure_tools()
    needs = {name: _IMPORT.findall(modules[name]) for name in sorted(modules)}
    needs[MAIN] += [name for name in needs if is_view(name)]
    return {name: modules[name] for name in TopologicalSorter(needs).static_order()}


def is_view(name: str) -> bool:
    """Whether a module is a view of the hierarchy."""
    return name.startswith("view_")


def served_page(modules: dict[str, str]) -> str:
    """Return the index page for a server: every module is fetched at once, then run in order."""
    lines = [f'<link rel="modulepreload" href="static/{name}">' for name in modules]
    lines.append(f'<link rel="preload" as="script" href="static/{PLOTLY}">')
    started = [name for name in modules if is_view(name) or name == MAIN]
    lines += [f'<script type="module" src="static/{name}"></script>' for name in started]
    return _index("\n".join(lines))


def exported_page(policy: str) -> str:
    """Return the index page of a folder: plain scripts beside it, and its own policy."""
    page = _index('<script src="data.js" defer></script>\n<script src="app.js" defer></script>')
    first = '<meta charset="utf-8">'
    # A policy governs only what follows it.
    guarded = f'{first}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace(first, guarded).replace("static/", "")


def bundle(modules: dict[str, str]) -> str:
    """Put the page's modules together into one plain script.

    Every module's own names live in one scope then, so no two modules may share a name; a test
    holds them to it.
    """
    parts = ['"use strict";\n(() => {\n']
    for name, module in modules.items():
        text = _IMPORT.sub("", module)
        text = re.sub(r"^export (?=(async )?(function|const|let|class) )", "", text, flags=re.M)
        if re.search(r"^(import|export)\b", text, re.M):
            raise ValueError(f"{name} imports or exports in a way that bundle() does not know")
        parts.append(f"// {name}\n{text}")
    return "".join([*parts, "})();\n"])


def _index(scripts: str) -> str:
    page: str = (static_folder() / "index.html").read_text("utf-8")
    return page.replace(_SCRIPTS, scripts)
