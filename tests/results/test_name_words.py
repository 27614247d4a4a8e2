import numpy as np

from graphham.graph.ids import NodeIds
from graphham.results.name_words import IdTexts, clean, feature_word, title_terms


def test_tags_lose_their_facet_and_numbers_are_no_words() -> None:
    assert feature_word("implemented-in::python") == "python"
    assert feature_word("devel::lang:perl") == "perl"
    assert feature_word("http://x") == "http://x"
    assert [feature_word(w) for w in ("word_17", "f3", "12", "feature 4", "the")] == [""] * 5
    assert clean("Case\nBased") == "Case Based"


def test_terms_are_counted_once_per_title_and_group() -> None:
    titles = ["GNU R, a GNU R thing"] * 3 + ["gnu r for you"] * 2 + ["R of 2 kinds"] * 4
    groups = [np.array([0, 0, 1, 1, 1, 0, 0, 0, 0])]
    found = title_terms(titles, groups, [2], with_words=True)
    at = {word.casefold(): i for i, word in enumerate(found.words)}
    assert found.words[at["gnu r"]] == "GNU R"  # as it was first written
    assert found.overall[at["gnu r"]] == 5
    assert found.counts[0].toarray()[:, at["gnu r"]].tolist() == [2, 3]
    assert found.sizes[0].tolist() == [6, 3]
    assert "kinds" in at
    assert not {"for you", "of 2", "2 kinds", "r of", "a", "of"} & set(at)
    only = title_terms(titles, groups, [2], with_words=True, with_bigrams=False)
    assert not any(" " in word for word in only.words)


def test_ids_fall_into_words() -> None:
    assert list(IdTexts(NodeIds(["a/b_c.py", "sales-07"]))) == ["a b c py", "sales 07"]
