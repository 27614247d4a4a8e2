"""The plan of the house, held by reading the source: few loose modules, short functions, tests."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "graphham"
MOST_LOOSE, MOST_LINES, MOST_PARAMETERS, TESTED_FROM = 8, 80, 12, 100
# Names that every package may have.
SHARED_NAMES = {"__init__.py", "base.py"}
# Decorators of compiled functions: one loop each, because a call inside it costs what it computes.
COMPILED = {"jit", "inlined", "njit"}

# A planted graph has fourteen properties that a caller may set by name, one sentence on each.
MANY_SETTINGS = {"graph/planted.py planted_hierarchy"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The last part of each decorator's name: ``command`` of ``@app.command("list")``."""
    calls = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return {ast.unparse(call).rpartition(".")[2] for call in calls}


@cache
def commands() -> frozenset[str]:
    """The functions of the command line: their parameters are options, each with its help."""
    found = set()
    for path in (SOURCE / "cli").glob("*.py"):
        for function in functions(path):
            if decorators(function) & {"command", "callback"}:
                found.add(f"{named(path)} {function.name}")
        for node in ast.walk(tree(path)):
            # app.command("name")(module.function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
                maker = node.func.func
                if isinstance(maker, ast.Attribute) and maker.attr == "command":
                    module, _, name = ast.unparse(node.args[0]).rpartition(".")
                    found.add(f"cli/{module}.py {name}")
    return frozenset(found)


def is_excepted(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if path.is_relative_to(SOURCE / "kernels") or decorators(function) & COMPILED:
        return True
    name = f"{named(path)} {function.name}"
    return name in commands() or name in MANY_SETTINGS


def num_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count what a caller has to know; a constructor's settings, given by name only, are not that.

    A method's settings are fields from which its ``__init__`` is made, so that ``get_params`` and
    ``clone`` find them there; each has a default, and nobody calls with all of them.
    """
    a = function.args
    count = len(a.posonlyargs) + len(a.args) + (a.vararg is not None) + (a.kwarg is not None)
    return count if function.name == "__init__" else count + len(a.kwonlyargs)


def test_few_modules_stand_outside_a_package() -> None:
    loose = [path.name for path in SOURCE.glob("*.py")]
    assert len(loose) <= MOST_LOOSE, f"put one of {sorted(loose)} into a package"


def test_no_file_name_is_used_twice() -> None:
    count = Counter(path.name for path in modules() if path.name not in SHARED_NAMES)
    twice = {name for name, times in count.items() if times > 1}
    assert not twice, f"two modules are called {sorted(twice)}; name one after what it does"


def expected_test(path: Path) -> Path:
    """``src/graphham/training/step.py`` is tested by ``tests/training/test_step.py``."""
    inside = path.relative_to(SOURCE)
    return ROOT / "tests" / inside.parent / f"test_{inside.name}"


def test_every_module_has_its_test_file() -> None:
    missing = []
    for path in modules():
        lines = len(path.read_text("utf-8").splitlines())
        if path.name == "__init__.py" or lines <= TESTED_FROM:
            continue
        if not expected_test(path).is_file():
            missing.append(expected_test(path).relative_to(ROOT).as_posix())
    assert not missing, f"write {', '.join(missing)}"


def test_a_test_file_tests() -> None:
    empty = []
    for path in modules():
        test = expected_test(path)
        if test.is_file():
            named_test = any(f.name.startswith("test_") for f in functions(test))
            empty += [] if named_test else [test.name]
    assert not empty


def test_functions_are_short_and_take_little() -> None:
    faults = []
    for path in modules():
        for function in functions(path):
            if is_excepted(path, function):
                continue
            assert function.end_lineno is not None
            lines = function.end_lineno - function.lineno + 1
            if lines > MOST_LINES:
                faults.append(f"{named(path)} {function.name} has {lines} lines")
            if num_parameters(function) > MOST_PARAMETERS:
                faults.append(
                    f"{named(path)} {function.name} takes {num_parameters(function)} parameters"
                )
    assert not faults, "; ".join(faults)
