from pathlib import Path

from graphham.results.diagnosis import diagnose
from graphham.results.model_card import model_card
from graphham.results.run_folder import Run
from graphham.system.console import group_lines
from tests.report.conftest import write_run


def test_a_run_says_what_it_is_on_a_card_that_people_may_edit(tmp_path: Path) -> None:
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
    assert Run.open(run.path, verify=True).summary == run.summary
    found = diagnose(run.path)
    assert (found.edited, found.damaged) == (["README.md"], {})
    (run.path / "README.md").unlink()
    assert Run.open(run.path).summary == run.summary
    assert diagnose(run.path).damaged == {}


def test_one_group_of_everything_is_not_called_badly_nested() -> None:
    tree = {"levels": 2, "nesting": 0.0, "nesting_1": 0.0}
    tree |= {"used_1": 9, "used_2": 1, "groups_1": 9, "groups_2": 1}
    tree |= {"largest_share_1": 0.2, "largest_share_2": 1.0}
    card = model_card({"graph": {"name": "a"}, "hierarchy": tree}, {}, ["summary.json"], [])
    said = " ".join(group_lines(tree))
    for text in (card, said):
        assert "esting" not in text
        assert "one group of everything" in text
    three = {**tree, "levels": 3, "used_2": 4, "used_3": 1, "groups_3": 1, "nesting_1": 0.5}
    three |= {"nesting_2": 0.0, "largest_share_3": 1.0, "nesting": 0.25}
    assert "nesting 0.500" in " ".join(group_lines(three))  # of the levels that can nest


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
