"""Versions of cells: what ages a number, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphham.evaluate import code_version as versions
from graphham.evaluate.cells import Cell
from graphham.evaluate.code_version import cell_version, code_version, definitions_of

MODULE = '''
"""What it is about."""
from graphham.fake_other import helper, Base
from graphham import fake_tools as tools

TABLE = {"a": 1}

def measure(x):
    """Measure."""
    from graphham.fake_lazy import late
    if x not in TABLE:
        raise ValueError(f"no {x}; give another")
    return helper(x) + tools.used(x) + late(TABLE[x])  # why

def unused():
    return 2

class Model(Base):
    size: int = 3
'''
OTHERS = {
    "fake_other": "def helper(x):\n    return _deep(x)\n\ndef _deep(x):\n    return x\n\n"
    "class Base:\n    pass\n",
    "fake_tools": "def used(x):\n    return x\n\ndef spare(x):\n    return 0\n",
    "fake_lazy": "def late(x):\n    return x\n",
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"fake": MODULE, **OTHERS}.items():
        (tmp_path / f"{name}.py").write_text(text)

    def path(name: str) -> Path | None:
        found = tmp_path / f"{name.removeprefix('graphham.')}.py"
        return found if found.is_file() else None

    monkeypatch.setattr(versions, "_path", path)
    monkeypatch.setattr(versions, "_counts", lambda module: True)
    return tmp_path


def version(root: str = "graphham.fake:measure") -> str:
    versions._module.cache_clear()
    versions._version.cache_clear()
    found = code_version([root])
    versions._module.cache_clear()
    return found


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("fake", '"a": 1', '"a": 2'),
        ("fake", "helper(x) +", "helper(x) -"),
        ("fake", "raise ValueError", "raise KeyError"),
        ("fake_other", "return x", "return x + 1"),  # two steps away
        ("fake_tools", "return x", "return -x"),  # an attribute of a module
        ("fake_lazy", "return x", "return -x"),  # imported inside the function
    ],
)
def test_what_a_number_depends_on_ages_it(source: Path, file: str, old: str, new: str) -> None:
    before = version()
    change(source / f"{file}.py", old, new)
    assert version() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("fake", '"""Measure."""', '"""Measure it well."""'),
        ("fake", "# why", "# because"),
        ("fake", "give another", "give one that is there"),
        ("fake", "return 2", "return 3"),
        ("fake", "size: int = 3", "size: int = 4"),
        ("fake_tools", "return 0", "return 1"),
        ("fake_other", "    pass", "    size = 2"),
    ],
)
def test_words_and_other_definitions_do_not(source: Path, file: str, old: str, new: str) -> None:
    before = version()
    change(source / f"{file}.py", old, new)
    assert version() == before


def test_how_an_object_is_shown_does_not(source: Path) -> None:
    before = version("graphham.fake:Model")
    shown = "    size: int = 3\n    def __repr__(self):\n        return unused()\n"
    change(source / "fake.py", "    size: int = 3\n", shown)
    assert version("graphham.fake:Model") == before


def test_what_a_module_does_as_a_command_does_not(source: Path) -> None:
    before = version()
    command = "    size: int = 3\n\nif __name__ == '__main__':\n    unused()\n"
    change(source / "fake.py", "    size: int = 3\n", command)
    assert version() == before


def test_what_a_setting_is_for_does_not_and_its_value_does(source: Path) -> None:
    field = 'size: int = Field(3, description="how large")'
    change(source / "fake.py", "size: int = 3", field)
    before = version("graphham.fake:Model")
    change(source / "fake.py", "how large", "how large it is")
    assert version("graphham.fake:Model") == before
    change(source / "fake.py", "Field(3", "Field(4")
    assert version("graphham.fake:Model") != before


def test_a_class_depends_on_its_base_and_its_fields(source: Path) -> None:
    before = version("graphham.fake:Model")
    change(source / "fake_other.py", "    pass", "    size = 2")
    after = version("graphham.fake:Model")
    change(source / "fake.py", "size: int = 3", "size: int = 4")
    assert len({before, after, version("graphham.fake:Model")}) == 3


def test_a_rival_does_not_depend_on_our_network_and_we_do_on_the_kernels() -> None:
    measure = "graphham.evaluate.classify:measure_classification"
    theirs = definitions_of([measure, "graphham.methods.gcn:GCN"])
    ours = definitions_of([measure, "graphham.methods.graphham:GraphHAM"])
    modules = {name.partition(":")[0].removeprefix("graphham.") for name in ours}
    assert {"model.network", "training.trainer", "kernels.attention_full", "config.resolve"} <= (
        modules
    )
    assert "graphham.methods.gcn:GcnNet" in theirs
    assert "graphham.training.multilabel:take_as_many" in theirs
    assert not [name for name in theirs if name.startswith("graphham.model.network")]
    for pages in ("cli", "report", "explore", "io"):
        assert not [name for name in {*ours, *theirs} if name.startswith(f"graphham.{pages}")]


def test_cells_of_one_method_and_graph_share_a_version() -> None:
    one = Cell("classify", "cora", "few5", "gcn")
    assert cell_version(one) == cell_version(Cell("classify", "cora", "folds", "gcn", seed=3))
    assert cell_version(one) != cell_version(Cell("classify", "cora", "few5", "appnp"))
    assert cell_version(one) != cell_version(Cell("classify", "citeseer", "few5", "gcn"))
