"""The MUSAE files keep the names of their pages."""

from pathlib import Path

from graphham.datasets import (
    load_dataset,
)


def test_facebook_pages_keep_names_and_words(data: Path) -> None:
    facebook = load_dataset("facebook")
    assert facebook.titles[1] == "U.S. Consulate General Mumbai"
    assert facebook.labels.values()[:2] == ["tvshow", "government"]
    assert facebook.features.nnz == 314_583
