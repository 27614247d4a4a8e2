"""What package indexes show: names they know, and no claim that the project does not make."""

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_every_classifier_is_one_that_indexes_know() -> None:
    trove = pytest.importorskip("trove_classifiers")
    unknown = set(PROJECT["classifiers"]) - set(trove.classifiers)
    assert not unknown
    assert len(set(PROJECT["classifiers"])) == len(PROJECT["classifiers"])
    # Indexes refuse a licence classifier beside an SPDX expression.
    assert not any(c.startswith("License ::") for c in PROJECT["classifiers"])


def test_the_versions_of_python_named_are_those_allowed() -> None:
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    named = [
        tuple(map(int, found[1].split(".")))
        for c in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (\d+\.\d+)", c))
    ]
    assert min(named) == least


def test_a_page_of_the_package_says_who_what_and_for_what() -> None:
    for field in ("authors", "keywords", "description", "readme", "license"):
        assert PROJECT[field]
    assert len(PROJECT["description"]) < 200
