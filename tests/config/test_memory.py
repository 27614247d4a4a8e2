"""What a fit is estimated to take, and what is refused because it cannot fit."""

from dataclasses import replace

import pytest

from graphham.config.memory import check_memory_suffices, estimate_memory, least_memory
from graphham.config.resolve import resolve
from graphham.config.resolved import GraphFacts
from graphham.config.settings import make_config
from graphham.errors import InputError

CORA = GraphFacts(
    2708, 10556, 1433, 49216, is_sparse=True, scaling="tfidf", words_per_node=18.2, num_classes=7
)


def test_the_estimate_grows_with_everything_that_takes_memory():
    config = resolve(make_config({"groups": (6, 2)}), CORA)
    base = estimate_memory(config, CORA)
    for settings in ({"groups": (600, 200)}, {"dim": 512}, {"model.heads": 8}):
        more = resolve(make_config({"groups": (6, 2)}, settings), CORA)
        assert estimate_memory(more, CORA) > base, settings
    for facts in (
        GraphFacts(5000, 10556, 1433, 49216, True),
        GraphFacts(2708, 90000, 1433, 49216, True),
        GraphFacts(2708, 10556, 1433, 99216, True),
        GraphFacts(2708, 10556, 9000),
    ):
        assert estimate_memory(config, facts) > base, facts
    tables = [
        estimate_memory(
            resolve(make_config({"loss.context": "skipgram", "loss.context_table": table}), CORA),
            CORA,
        )
        for table in ("inductive", "factored", "full")
    ]
    assert tables == sorted(set(tables))
    # A large graph by samples takes less than whole.
    large = GraphFacts(3_000_000, 10_000_000, 60)
    sampled, full = (
        estimate_memory(resolve(make_config({"train.batch": batch}), large), large)
        for batch in ("sampled", "full")
    )
    assert sampled < full


def test_a_fit_that_cannot_fit_is_refused_with_the_bytes():
    facts = GraphFacts(10**7, 10**8, 100, free_memory=1 << 30)
    config = resolve(make_config({}), facts)
    needed = least_memory(config, facts)
    with pytest.raises(InputError) as caught:
        check_memory_suffices(config, facts)
    for number in (f"{needed:,} bytes", f"{1 << 30:,}", "10,000,000 nodes"):
        assert number in str(caught.value)
    for enough in (replace(facts, free_memory=needed), replace(facts, free_memory=None)):
        check_memory_suffices(config, enough)
    check_memory_suffices(resolve(make_config({"train.memory_gib": 64}), facts), facts)
    # What is surely needed is less than what is estimated, whatever the steps.
    for batch in ("full", "sampled"):
        config = resolve(make_config({"train.batch": batch}), facts)
        assert least_memory(config, facts) < estimate_memory(config, facts)
