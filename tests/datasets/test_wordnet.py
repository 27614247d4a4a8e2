"""The synset graph keeps the words of its senses."""

from pathlib import Path

from graphham.datasets import (
    load_dataset,
)


def test_senses_keep_their_lemmas(data: Path) -> None:
    wordnet = load_dataset("wordnet")
    entity = wordnet.ids.row("n00001740")
    assert wordnet.titles[entity] == "entity"
    assert "physical entity" in [wordnet.titles[r] for r in wordnet.neighbors(entity)]
