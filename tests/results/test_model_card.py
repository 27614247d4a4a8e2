from pathlib import Path

import pytest

from graphham.errors import InputError
from graphham.results.model_card import model_card
from graphham.results.run_folder import Run
from tests.report.conftest import write_run


def test_a_run_says_what_it_is_and_the_card_is_sealed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    card = (run.path / "README.md").read_text()
    tree = run.summary["hierarchy"]
    assert f"{run.summary['graph']['nodes']:,} nodes" in card
    assert f"Level 2: {tree['used_2']} groups in use" in card
    assert f"NMI with the labels {tree['nmi_1']:.2f}" in card
    assert "Labels were not trained on" in card
    largest = max(zip(run.hierarchy.sizes[1], run.hierarchy.names[1], strict=True))[1]
    assert largest in card.replace("\\", "")
    assert "gh.load(" in card
    for name in {*run.summary["files"]} - {"README.md"}:
        assert f"`{name}`" in card
    assert "README.md" in run.summary["checksums"]
    (run.path / "README.md").write_text(card + "mine")
    with pytest.raises(InputError, match=r"README\.md"):
        Run.open(run.path)


def test_a_card_warns_of_groups_that_are_chance_and_keeps_text_on_its_line() -> None:
    summary = {
        "graph": {"name": "a\n# b | <c>", "nodes": 3, "edges": 2},
        "status": "interrupted",
        "structure": {"found": False, "sentence": "no groups found"},
        "notes": ["level 1\ncollapsed"],
    }
    card = model_card(summary, {}, ["summary.json"], [])
    assert card.splitlines()[0] == r"# a \# b \| \<c\>: a run of graphham"
    assert "likely to be invented" in card
    assert "stopped early" in card
    assert "- level 1 collapsed" in card
    assert "Vectors only" in card
    assert "no features" in card
