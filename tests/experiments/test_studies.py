"""Studies list the cells they promise."""

import pytest

from experiments.hierarchy_peers import PEERS
from experiments.studies import load_study, settings_for, study_names, study_variants
from graphham.errors import InputError
from graphham.evaluate.learned_links import CLUES
from graphham.methods.registry import method_class, method_names


def test_every_study_names_known_methods_and_can_be_quick() -> None:
    names = study_names()
    paper = {f"table{n}" for n in (1, 2, 3, 4)} | {f"figure{n}" for n in (3, 4, 5, 6)}
    assert paper | {"large", "presets"} == set(names)
    known = {*method_names(), *PEERS, "data", CLUES}
    for name in names:
        whole, quick = load_study(name), load_study(name, quick=True)
        assert {cell.method for cell in whole.cells} <= known | set(study_variants(name))
        assert len({cell.key for cell in whole.cells}) == len(whole.cells)
        assert 0 < len(quick.cells) <= len(whole.cells)


def test_table2_holds_ten_splits_of_ours_and_shares_cells_with_table4() -> None:
    cells = load_study("table2", datasets=["cora"]).cells
    ours = [c for c in cells if c.method == "graphham" and c.protocol == "folds"]
    assert {(c.seed, c.fold) for c in ours} == {(s, f) for s in range(2) for f in range(5)}
    ablation = {c.key for c in load_study("table4", datasets=["cora"]).cells}
    assert {c.key for c in ours} <= ablation


def test_choices_narrow_a_study() -> None:
    study = load_study("table2", datasets=["cora"], methods=["sgc"], seeds=[7], budget=2)
    assert {(c.graph, c.method, c.seed, c.budget) for c in study.cells} == {("cora", "sgc", 7, 2)}
    links = load_study("table3", datasets=["cora"], methods=["logreg", "smoothed"]).cells
    assert {c.method for c in links} == {"smoothed"}
    # The learned scorer is offered to the methods that its block names, and to none.
    asked = load_study("table3", datasets=["cora"], methods=["gat", "deepwalk", CLUES]).cells
    assert {c.method for c in asked if c.is_learned} == {"gat", CLUES}
    with pytest.raises(InputError, match="no cells"):
        load_study("presets", methods=["gat"])
    with pytest.raises(InputError, match="debian"):
        load_study("table2", datasets=["debian"])
    for graph, standins in (
        ("youtube", "youtube-planted/100 and youtube-planted"),
        ("amazon", "amazon-planted/100"),
    ):
        with pytest.raises(InputError, match=rf"loader .*, not the files.* {standins}$"):
            load_study("table2", datasets=[graph])
    with pytest.raises(InputError, match="evaluate classify amazon-photo"):
        load_study("table2", datasets=["amazon-photo"])
    with pytest.raises(InputError, match="table9"):
        load_study("table9")
    grid = load_study("figure5").cells
    assert {"groups": [8, 5]} in [dict(c.settings) for c in grid]


def test_the_paper_preset_has_blocks_of_its_own() -> None:
    printed = load_study("table4", methods=["graphham-no-q"], datasets=["cora"]).cells
    assert {c.settings.get("preset") for c in printed} == {None, "paper"}
    # Settings of a block are for the methods it names.
    assert not [c for c in load_study("table4", methods=["gat"]).cells if c.settings]
    portraits = load_study("figure6", methods=["graphham-paper"]).cells
    assert {(c.method, c.settings["preset"]) for c in portraits} == {("graphham-paper", "paper")}
    assert not [c for c in load_study("figure5", quick=True).cells if c.method != "graphham"]


def test_rivals_have_the_settings_of_their_papers_beside_ours() -> None:
    cells = [c for c in load_study("table2").cells if c.method == "gat" and c.protocol == "folds"]
    published = dict(method_class("gat").published)
    for graph in ("cora", "citeseer", "pubmed", "facebook"):
        found = {
            s: [c for c in cells if c.graph == graph and bool(c.settings) == s] for s in (0, 1)
        }
        assert all(dict(c.settings) == published for c in found[1])
        assert [(c.seed, c.fold) for c in found[1]] == [(c.seed, c.fold) for c in found[0]]
    # Only methods that a block names have settings of their paper.
    assert not [c for c in load_study("table2", methods=["sgc"]).cells if c.settings]


def test_settings_of_one_graph_go_on_top() -> None:
    known = {
        "classify": {"graphham": {"any": {"dim": 64, "settings": {"a": 1}},
                                  "pubmed": {"settings": {"b": 2}}}}
    }  # fmt: skip
    assert settings_for(known, "classify", "graphham", "cora") == {"dim": 64, "settings": {"a": 1}}
    found = settings_for(known, "classify", "graphham", "pubmed")
    assert found == {"dim": 64, "settings": {"a": 1, "b": 2}}
    assert settings_for(known, "links", "graphham", "pubmed") == {}


def test_variants_are_methods_with_settings_of_their_own() -> None:
    cells = load_study("presets").cells
    varied = study_variants("presets")
    assert {cell.method for cell in cells} == set(varied)
    assert all(dict(cell.settings) == varied[cell.method] for cell in cells)
    links = [c for c in cells if (c.protocol, c.method) == ("links", "minus-lambda")]
    assert [c.seed for c in links] == [0, 1, 2, 3]
    folds = [c for c in cells if (c.protocol, c.method) == ("classify", "minus-lambda")]
    assert [c.fold for c in folds] == [0, 1, 2, 3, 4]
    few = load_study("presets", methods=["paper"]).cells
    assert {c.method for c in few} == {"paper"}
    assert {c.method for c in load_study("presets", quick=True).cells} == {
        "default",
        "minus-lambda",
    }
