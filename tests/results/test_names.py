from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.results.describe import groups_table
from graphham.results.hierarchy import Hierarchy
from graphham.results.names import GroupFacts, label_name, name_tree
from graphham.results.result import FitResult
from tests.outputs import HOSTILE, make_graph, make_result


def planted(
    words: list[list[str]], parents: list[int], size: int = 20, titles: bool = False
) -> tuple[FitResult, Graph]:
    """Groups of ``size`` nodes whose members all have the words (or the titles) of their group."""
    fine = np.repeat(np.arange(len(words)), size).astype(np.int32)
    top = np.array(parents, dtype=np.int32)
    groups = [fine, top[fine]]
    counts = (len(words), max(parents) + 1)
    result = FitResult(
        ids=NodeIds([f"n{i}" for i in range(len(fine))]),
        embedding=np.ones((len(fine), 4), np.float32),
        layer_dims=(4,),
        memberships=[np.eye(k, dtype=np.float32)[c] for c, k in zip(groups, counts, strict=True)],
        groups=groups,
        parents=[top],
    )
    known = list(dict.fromkeys(w for of in words for w in of))
    parts: dict[str, Any] = {}
    if titles:
        parts["titles"] = [words[g][0] for g in fine]
    else:
        rows = [[w in words[g] for w in known] for g in fine]
        parts["features"] = sp.csr_matrix(np.array(rows, dtype=np.float32))
        parts["feature_names"] = known
    edges = np.arange(len(fine) - 1)
    return result, build_graph(edges, edges + 1, len(fine), ids=result.ids, **parts)


def names(result: FitResult, graph: Graph, **more: Any) -> list[list[str]]:
    rows = groups_table(result, graph, **more).to_pylist()
    return [[r["name"] for r in rows if r["level"] == level] for level in (1, 2)]


def test_siblings_are_named_by_what_tells_them_apart() -> None:
    """Both children have the parent's words far more often than the rest; only "doc" differs."""
    words = [["perl", "doc"], ["perl", "lib"], ["java", "doc"], ["java", "lib"]]
    fine, top = names(*planted(words, [0, 0, 1, 1]))
    assert top == ["perl", "java"]
    assert [name.split(" ")[0] for name in fine] == ["doc", "lib", "doc", "lib"]
    # The same word in another place: the place tells the groups apart.
    assert fine == ["doc", "lib", "doc (java)", "lib (java)"]


def test_an_only_child_does_not_have_its_parents_name() -> None:
    fine, top = names(*planted([["perl", "moose", "dbi", "cgi", "lwp"], ["java"]], [0, 1]))
    assert top[1] == "java"
    assert fine[1].startswith("like n")
    assert set(top[0].split(" / ")) & set(fine[0].split(" / ")) == set()


def test_a_bigram_of_titles_stands_for_its_words() -> None:
    words = [["gnu"], ["gnu"], ["java"], ["java"]]
    result, graph = planted(words, [0, 1, 2, 2], size=10)
    titles = ["GNU R package for maps (r-cran)"] * 10 + ["GNU Emacs, an editor"] * 10
    graph = build_graph(
        np.arange(39),
        np.arange(1, 40),
        40,
        ids=result.ids,
        features=graph.features,
        feature_names=graph.feature_names,
        titles=[*titles, *["Java tools of the 2 kinds"] * 20],
    )
    top = names(result, graph)[1]
    assert top[0].startswith("GNU R")
    assert top[1] == "GNU Emacs"
    assert top[2] == "Java tools"
    assert not any("for maps" in name or "an editor" in name or "2 kinds" in name for name in top)


def test_titles_name_groups_where_features_have_no_words() -> None:
    result, graph = planted([["Graph neural networks"], ["Bayesian inference"]], [0, 1], 9, True)
    assert names(result, graph)[1] == ["Graph neural", "Bayesian inference"]


def test_names_shorten_tags_and_say_things_once() -> None:
    assert label_name(["Theory", "Case\nBased"]) == "Theory / Case Based [label]"
    words = [["implemented-in::python", "python3", "Python", "use::web", "django"], ["other"]]
    assert names(*planted(words, [0, 1]))[1][0] == "python / web / django"


def test_twins_are_told_apart_by_typical_nodes() -> None:
    fine, top = names(*planted([["web"]] * 3 + [["x y"]], [0, 0, 0, 1]))
    assert top == ["web", "x y"]
    assert len(set(fine)) == 4
    assert all(name.startswith("like n") for name in fine[:3])


@given(
    st.lists(st.lists(st.text(max_size=40), min_size=1, max_size=4), min_size=3, max_size=6),
    st.booleans(),
)
def test_names_are_distinct_printable_and_short(words: list[list[str]], titles: bool) -> None:
    parents = [0, 1, *[g % 2 for g in range(len(words) - 2)]]
    result, graph = planted(words, parents, 3, titles)
    every = [name for level in names(result, graph) for name in level]
    assert len(set(every)) == len(every)
    assert all(n.isprintable() and n.strip() == n != "" and len(n) <= 160 for n in every)


@pytest.mark.parametrize("kind", ["text", "none"])
def test_no_group_of_two_levels_shares_a_name(kind: str) -> None:
    result = make_result(len(HOSTILE), (6, 3), ids=HOSTILE, labels=kind)
    for graph in (make_graph(result), make_graph(result, features=None)):
        for by_labels in (False, True):
            fine, top = names(result, graph, by_labels=by_labels)
            assert len({*fine, *top}) == 9
    bare = Hierarchy.from_groups(result.groups, result.group_counts, result.parents)
    assert len({n for level in bare.names for n in level}) == 9
    assert bare.names[1][0] == "group 2-0"


def test_a_namer_is_asked_once_per_group_parents_first() -> None:
    words = [["perl", "doc"], ["perl", "lib"], ["java"]]
    asked: list[GroupFacts] = []

    def namer(facts: GroupFacts) -> str:
        asked.append(facts)
        return f"<{facts.features[0]}>\n" if facts.features else ""

    fine, top = names(*planted(words, [0, 0, 1]), namer=namer)
    assert top == ["<perl>", "<java>"]
    assert fine[:2] == ["<doc>", "<lib>"]
    # An only child sets itself apart by its parent's words; the name is taken, so it has its place.
    assert fine[2] == "<java> (1-2)"
    assert [(f.level, f.parent_name) for f in asked] == [
        (2, None),
        (2, None),
        (1, "<perl>"),
        (1, "<perl>"),
        (1, "<java>"),
    ]
    assert asked[0].size == 40
    assert set(asked[2].nodes) <= {f"n{i}" for i in range(20)}
    assert asked[2].suggestion == "doc"
    with pytest.raises(InputError, match="returned int for group 2-0"):
        names(*planted(words, [0, 0, 1]), namer=lambda facts: 3)  # type: ignore[arg-type]


def test_empty_groups_are_numbered_and_nobody_is_asked_about_them() -> None:
    tree = Hierarchy.from_groups([np.zeros(4, np.int32)], [3])
    asked = []
    found = name_tree(tree, [], [[["a"], [], []]], namer=lambda facts: asked.append(facts))
    assert found == [["all nodes", "group 1-1", "group 1-2"]]
    assert len(asked) == 1
    kept = name_tree(tree, [], [[["a"], [], []]], namer=lambda f: "new", kept={(1, 0): "old"})
    assert kept[0][0] == "old"


def test_words_of_ids_name_groups_where_nothing_else_does() -> None:
    result, _ = planted([["a"], ["b"], ["c"]], [0, 0, 1], size=8)
    areas = ["lib/io", "lib/web", "docs/man"]
    result = replace(
        result, ids=NodeIds([f"{areas[g]}_{i}.py" for i, g in enumerate(result.groups[0])])
    )
    edges = np.arange(23)
    graph = build_graph(edges, edges + 1, 24, ids=result.ids)
    fine, top = names(result, graph)
    assert top[0].startswith("lib")
    assert set(top[1].split(" / ")) == {"docs", "man"}
    assert fine[:2] == ["io", "web"]


def test_a_group_of_everything_says_so() -> None:
    result, graph = planted([["perl"], ["java"]], [0, 0])
    fine, top = names(result, graph)
    assert top == ["all nodes"]
    assert fine == ["perl", "java"]
