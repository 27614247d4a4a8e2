"""The model package can be read alone: what importing it loads, and what it may import at all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import graphham.kernels
import graphham.model

LOADED = """
import sys
import graphham.model
graphham.model.GraphHAMNet, graphham.model.Batch, graphham.model.MembershipAttention
print(*sorted(name for name in sys.modules if name.split(".")[0] in ("graphham", "numba")))
"""
FORWARD = """
import torch
from graphham.model import MembershipAttention
edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
print(tuple(MembershipAttention(4, 3, 2)(torch.ones(3, 4), edges).shape))
"""


def run(text):
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_model_loads_little_of_the_package():
    loaded = run(LOADED).split()
    assert "numba" not in loaded  # compiled kernels come with their first use
    assert len(loaded) <= 15, loaded
    for absent in ("config", "training", "parallel", "model.inputs", "model.group_seeding"):
        assert f"graphham.{absent}" not in loaded


def test_a_layer_works_in_a_process_that_imported_nothing_else():
    assert run(FORWARD) == "(3, 3)"


def test_the_model_does_not_know_the_settings_of_a_run():
    folder = Path(graphham.model.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("graphham.config"), path.name


def test_no_name_of_the_kernels_is_the_name_of_a_module():
    """Importing the module would put itself in the place of the operation."""
    folder = Path(graphham.kernels.__file__).parent
    assert not set(graphham.kernels.__all__) & {path.stem for path in folder.glob("*.py")}
    assert set(graphham.kernels.__all__) == set(graphham.kernels._HOMES)


@pytest.mark.parametrize("name", graphham.kernels.__all__)
def test_a_name_of_the_kernels_is_looked_for_once(name):
    found = getattr(graphham.kernels, name)
    assert found.__name__ == name
    assert vars(graphham.kernels)[name] is found


def test_an_unknown_kernel_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_kernel"):
        _ = graphham.kernels.no_such_kernel
