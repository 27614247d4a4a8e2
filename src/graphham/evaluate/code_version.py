"""Versions of measurements: a hash of the code that a number comes from, and of nothing else.

From the function that measures and the class of the method, every definition is followed to the
definitions it names, over modules, imports inside functions included. Their text, without comments,
docstrings and what errors say, is the version. What only reads files, keeps runs or shows them is
left out, so that a new template, a better sentence or another method's change does not make a
measurement old.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from graphham.evaluate.cells import Cell

# What a number is made of; of the other packages nothing is.
_PACKAGES = {
    "config",
    "evaluate",
    "graph",
    "groups",
    "kernels",
    "methods",
    "model",
    "parallel",
    "readout",
    "sampling",
    "training",
}
_SINGLE = {"results.agreement", "results.encoder", "results.hierarchy", "results.scores"}
# The machinery around a measurement: who runs it, where it is kept, how it is shown.
_NEVER = {
    "evaluate.cells",
    "evaluate.code_version",
    "evaluate.comparison",
    "evaluate.fit_cache",
    "evaluate.reporting",
    "evaluate.running",
    "evaluate.tables",
    "graph.integrity",
    "graph.store",
    "graph.store_parts",
    "methods.registry",
    "methods.run_fitting",
    "training.checkpoints",
    "training.shared_checkpoints",
}
_SHOWN = {"__repr__", "_repr_html_"}
_SAID = {"description", "help"}  # arguments that only tell people something
_OURS = ("graphham", "experiments")
MEASURES = {
    "classify": "graphham.evaluate.classify:measure_classification",
    "links": "graphham.evaluate.links:measure_links",
}
_LEARNED = "graphham.evaluate.learned_links:measure_learned_links"

Place = tuple[str, str]  # module, definition; all of a module where the second is empty
_LOOSE = "<statements>"


@dataclass
class _Definition:
    """One top-level name of a module: its text, and the names it uses.

    Args:
        text: Without comments and docstrings.
        names: Names that occur in it, with the attribute that is taken of them, if one is.
        imports: What imports inside it bind.
    """

    text: str
    names: set[str]
    imports: dict[str, Place]


@dataclass
class _Module:
    """A module taken apart.

    Args:
        definitions: By name; statements that define nothing stand together.
        imports: What imports at the top bind.
    """

    definitions: dict[str, list[_Definition]] = field(default_factory=dict)
    imports: dict[str, Place] = field(default_factory=dict)


def cell_version(cell: Cell) -> str:
    """Return the version of the code that measures a cell of kind ``classify`` or ``links``."""
    return code_version(
        [measure_place(cell), *method_roots(cell.method), *reader_roots(cell.graph)]
    )


def measure_place(cell: Cell) -> str:
    """Return what measures a cell of kind ``classify`` or ``links``."""
    return _LEARNED if cell.is_learned else MEASURES[cell.kind]


def method_roots(name: str) -> list[str]:
    """Return the class of a method; nothing for a name that no method has."""
    from graphham.methods.registry import method_names, method_place

    return [method_place(name)] if name in method_names() else []


def reader_roots(graph: str) -> list[str]:
    """Return what reads a dataset's files; nothing for a graph that is no dataset."""
    from graphham.datasets.catalog import CATALOG

    return [f"graphham.datasets.{CATALOG[graph].format}:load"] if graph in CATALOG else []


def code_version(roots: Iterable[str], stops: Iterable[str] = (), more: str = "") -> str:
    """Return a hash of all code that some definitions depend on.

    Args:
        roots: ``module:definition``, such as ``graphham.methods.gcn:GCN``.
        stops: Definitions that do not count: tables of many things of which a measurement uses one.
        more: Further text to tell versions apart by.
    """
    return _version(tuple(sorted(set(roots))), frozenset(stops), more)


@functools.cache
def _version(roots: tuple[str, ...], stops: frozenset[str], more: str) -> str:
    text = hashlib.blake2b(more.encode(), digest_size=6)
    for (module, name), definition in _reached(roots, stops):
        text.update(f"{module}:{name}\n{definition.text}\n".encode())
    return text.hexdigest()


def definitions_of(roots: Iterable[str], stops: Iterable[str] = ()) -> list[str]:
    """Return what a version is made of, as ``module:definition``, in alphabetical order."""
    places = dict.fromkeys(place for place, _ in _reached(tuple(roots), frozenset(stops)))
    return [f"{module}:{name}" for module, name in places]


def _reached(roots: tuple[str, ...], stops: frozenset[str]) -> list[tuple[Place, _Definition]]:
    todo: list[Place] = []
    for root in roots:
        module_name, _, name = root.partition(":")
        todo.append((module_name, name))
    # What is asked for counts, wherever it is.
    asked = {home for home, _ in todo}
    seen: set[Place] = set()
    found: list[tuple[Place, _Definition]] = []
    while todo:
        place = todo.pop()
        home, name = place
        is_new = place not in seen and f"{home}:{name}" not in stops
        is_new = is_new and (home in asked or _counts(home))
        module = _module(home) if is_new else None
        seen.add(place)
        if module is None:
            continue
        if not name:
            todo += [(home, each) for each in module.definitions]
        elif name in module.definitions:
            # Loose statements may register what the others use, so they go with each of them.
            todo.append((home, _LOOSE))
            for definition in module.definitions[name]:
                found.append((place, definition))
                todo += _named_places(home, module, definition)
        elif name != _LOOSE:
            # Passed on from elsewhere, or a module of a package.
            todo.append(module.imports.get(name, (f"{home}.{name}", "")))
    return sorted(found, key=lambda pair: (pair[0], pair[1].text))


def _named_places(home: str, module: _Module, definition: _Definition) -> Iterator[Place]:
    for used in definition.names:
        first, _, attribute = used.partition(".")
        if first in definition.imports:
            origin, name = definition.imports[first]
        elif first in module.definitions:
            yield home, first
            continue
        elif first in module.imports:
            origin, name = module.imports[first]
        else:
            continue
        inner = f"{origin}.{name}" if name else origin
        if _path(inner) is not None:
            yield inner, attribute
        else:
            yield origin, name


def _counts(module: str) -> bool:
    package, _, rest = module.partition(".")
    if package != "graphham":
        return bool(package)
    if rest in _NEVER:
        return False
    return rest in _SINGLE or rest.partition(".")[0] in _PACKAGES


@functools.cache
def _module(name: str) -> _Module | None:
    path = _path(name)
    if path is None:
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = _Module()
    if path.name == "__init__.py":
        # A package may load what it passes on when asked for it, and tell only type checkers.
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found.imports |= _bound(node)
    for statement in _Bare().visit(tree).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found.imports |= _bound(statement)
            continue
        names, imports = _uses(statement)
        definition = _Definition(ast.unparse(statement), names, imports)
        for defined in _defines(statement) or [_LOOSE]:
            found.definitions.setdefault(defined, []).append(definition)
    return found


@functools.cache
def _path(name: str) -> Path | None:
    """Return the file of a module of ours, found without importing it."""
    top, *rest = name.split(".")
    home = _home(top)
    if home is None:
        return None
    place = home.joinpath(*rest)
    files = (place.with_suffix(".py"), place / "__init__.py") if rest else (place / "__init__.py",)
    return next((file for file in files if file.is_file()), None)


@functools.cache
def _home(package: str) -> Path | None:
    spec = importlib.util.find_spec(package) if package in _OURS else None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


class _Bare(ast.NodeTransformer):
    """Take away what no number depends on.

    Docstrings, imports for type checkers, what errors and settings say, how objects are shown, and
    what a module does as a command.
    """

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        return None if node.arg in _SAID else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return None if node.name in _SHOWN else self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        test = ast.unparse(node.test)
        if "TYPE_CHECKING" in test or test == "__name__ == '__main__'":
            return None
        return self.generic_visit(node)


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def _uses(statement: ast.stmt) -> tuple[set[str], dict[str, Place]]:
    """Return the names a statement mentions outside annotations, and what it imports."""
    names: set[str] = set()
    imports: dict[str, Place] = {}
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _bound(node)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
            continue
        for name, value in ast.iter_fields(node):
            # Annotations of functions are never evaluated; those of fields may say what is made.
            if name == "returns" or (name == "annotation" and isinstance(node, ast.arg)):
                continue
            values = value if isinstance(value, list) else [value]
            todo += [one for one in values if isinstance(one, ast.AST)]
    return names, imports


def _bound(statement: ast.Import | ast.ImportFrom) -> dict[str, Place]:
    """Return what an import of our own packages binds."""
    if isinstance(statement, ast.Import):
        named = {alias.asname: alias.name for alias in statement.names if alias.asname}
        return {name: (at, "") for name, at in named.items() if at.partition(".")[0] in _OURS}
    origin = statement.module or ""
    if origin.partition(".")[0] not in _OURS:
        return {}
    return {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}
