"""The printed tables were read whole."""

from experiments.published import ABLATION, CLASSIFICATION, LINKS


def test_published_tables_were_read_whole() -> None:
    assert (len(CLASSIFICATION), len(LINKS), len(ABLATION)) == (144, 48, 54)
    assert CLASSIFICATION["facebook", "micro_f1", "graphham"].value == 0.930
    assert LINKS["pubmed", "mrr", "graphstone"].deviation == 0.017
    assert ABLATION["citeseer", "macro_f1", "graphham-no-reg"].starred
    assert not ABLATION["citeseer", "accuracy", "graphham-no-q"].starred
    assert sum(p.starred for p in ABLATION.values()) == 37
