"""Every promise of docs/promises.md names tests, and they exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text()


def promises() -> list[tuple[str, list[str]]]:
    """Return each promise with what stands beside it."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return [(row[0], re.findall(r"`([^`]+)`", row[-1])) for row in rows if row[0] != "promise"]


def test_every_promise_names_a_test_that_exists() -> None:
    found = promises()
    assert len(found) > 25
    for promise, named in found:
        assert named, f"no test is named for: {promise}"
        for name in named:
            file, sign, function = name.partition("::")
            assert sign, f"{name} names no test"
            tree = ast.parse((ROOT / file).read_text())
            tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert function in tests, f"{name} does not exist"


def test_limits_on_the_page_are_those_of_the_code() -> None:
    from graphham import errors
    from graphham.graph.integrity import UNREAD_BYTES
    from graphham.io import files
    from graphham.results.run_checks import SMALL_BYTES

    assert SMALL_BYTES == 1 << 20
    assert UNREAD_BYTES == 1 << 30
    assert (files.UNPACKED_FREE_BYTES >> 20, files._UNPACKED_FACTOR) == (256, 100)
    assert errors._MOST_SIGNS == 1500


def test_the_security_page_is_linked() -> None:
    assert "docs/promises.md" in (ROOT / "SECURITY.md").read_text()
    assert "SECURITY.md" in (ROOT / "README.md").read_text()
