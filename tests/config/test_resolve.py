"""Resolving: what the settings leave open is decided by a few numbers, what they give stays."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.config.resolve import RateBySize, default_groups, explain_resolved, resolve
from graphham.config.resolved import GraphFacts
from graphham.config.settings import make_config
from graphham.errors import InputError

CORA = GraphFacts(
    2708, 10556, 1433, 49216, words_per_node=18.2, is_sparse=True, scaling="tfidf", num_classes=7
)
FEW = replace(CORA, has_few_labels=True)
APART = GraphFacts(
    2708, 10556, num_classes=7, has_few_labels=True, agreement=0.3, agreement_error=0.1
)
CLASSIFY = make_config({"task": "classify"})

FACTS = st.builds(
    GraphFacts,
    num_nodes=st.integers(200, 10**8),
    num_stored=st.integers(1, 10**9),
    num_features=st.integers(0, 5000),
    num_feature_values=st.integers(0, 10**8),
    words_per_node=st.floats(0, 1000),
    links_tell=st.booleans(),
    is_sparse=st.booleans(),
    scaling=st.sampled_from(["none", "row", "tfidf", "standard"]),
    num_classes=st.integers(1, 50),
    has_few_labels=st.booleans(),
    agreement=st.floats(0, 1),
    own_features_help=st.booleans(),
    neighbors_tell=st.booleans(),
)


def leaves(values):
    for value in values.values():
        yield from leaves(value) if isinstance(value, dict) else [value]


@given(FACTS, st.sampled_from(["embed", "classify"]), st.sampled_from(["default", "paper"]))
def test_nothing_is_left_open_and_resolving_again_changes_nothing(facts, task, preset):
    settings = make_config({"task": task, "train.memory_gib": 1.0}, preset=preset)
    config = resolve(settings, facts)
    assert not [value for value in leaves(config.model_dump()) if value in (None, "auto")]
    assert resolve(config, facts) == config


@given(FACTS)
def test_what_is_given_stays(facts):
    given_values = {
        "task": "classify",
        "groups": (9, 4),
        "inputs.scaling": "row",
        "inputs.link_rows": False,
        "model.residual": False,
        "model.init": "svd",
        "model.class_steps": 3,
        "model.class_groups": False,
        "loss.context_weight": 0.0,
        "loss.teacher_weight": 0.0,
        "loss.doubt_teacher": False,
        "train.epochs": 7,
        "train.settle": 0.0,
        "train.epoch_steps": 0,
        "train.batch_size": 99,
        "train.batch": "full",
        "train.lr": 0.3,
        "train.weight_decay": 0.0,
        "train.feature_dropout": 0.0,
        "train.edge_dropout": 0.0,
        "train.dropout": 0.0,
    }
    settings = make_config(given_values)
    config = resolve(settings, facts)
    assert config.loss.context_table == "inductive"
    assert make_config(config.to_dict(), {"loss.context_table": "auto"}) == settings


def test_the_task_and_the_labels_decide_the_defaults():
    embed, classify, few, apart = (
        resolve(make_config({"task": task}), facts)
        for task, facts in (
            ("embed", APART),
            ("classify", CORA),
            ("classify", FEW),
            ("classify", APART),
        )
    )
    assert (embed.train.epochs, classify.train.epochs, few.train.epochs) == (80, 150, 300)
    assert (embed.train.weight_decay, classify.train.weight_decay) == (0.0, 5e-4)
    assert [c.model.init for c in (embed, classify, few)] == ["svd", "glorot", "svd"]
    assert [c.model.class_steps for c in (embed, classify, few, apart)] == [0, 0, 10, 0]
    assert [c.model.class_groups for c in (classify, few, apart)] == [False, False, True]
    assert [c.loss.teacher_weight for c in (embed, classify, few, apart)] == [0, 3, 3, 3]
    assert [c.loss.context_weight for c in (embed, classify, few, apart)] == [1, 0.2, 1, 0]
    # What is not about neighbours is the same for few labels of either kind.
    few = resolve(CLASSIFY, replace(APART, agreement=1.0))
    assert apart.train == few.train


@pytest.mark.parametrize(
    ("scaling", "words", "embed", "classify", "few"),
    [
        ("tfidf", 49.0, 0.8, 0.7, 0.8),
        ("row", 7.0, 0.5, 0.5, 0.5),
        ("tfidf", 1.0, 0.0, 0.0, 0.0),
        ("standard", 0.0, 0.5, 0.0, 0.0),
    ],
)
def test_words_are_dropped_as_far_as_others_are_left_and_measured_numbers_are_not(
    scaling, words, embed, classify, few
):
    facts = replace(CORA, scaling=scaling, words_per_node=words)
    rates = [
        resolve(make_config({"task": task}), replace(facts, has_few_labels=is_few))
        for task, is_few in (("embed", False), ("classify", False), ("classify", True))
    ]
    assert [config.train.feature_dropout for config in rates] == [embed, classify, few]
    # It is the features that decide, and not how somebody wants them scaled.
    asked = make_config({"task": "classify", "inputs.scaling": "row"})
    assert resolve(asked, facts).train.feature_dropout == classify


def test_structural_features_are_dropped_by_size_alone():
    facts = GraphFacts(2708, 10556, num_classes=7)
    assert resolve(make_config({}), facts).train.feature_dropout == 0.8
    assert resolve(CLASSIFY, facts).train.feature_dropout == 0.7


def test_with_few_labels_the_teacher_is_doubted_where_that_is_quick_and_nobody_said_otherwise():
    def doubted(facts, **given):
        return resolve(make_config({"task": "classify", **given}), facts).loss.doubt_teacher

    assert doubted(FEW)
    assert doubted(APART)
    assert not doubted(CORA)
    assert not doubted(replace(FEW, is_multi=True))
    assert not doubted(replace(FEW, links_tell=False))
    assert not doubted(FEW, **{"train.batch": "sampled"})
    assert not doubted(FEW, **{"train.shards": 2})
    assert not doubted(FEW, **{"loss.teacher_weight": 3.0})
    assert not doubted(FEW, **{"loss.context_weight": 1.0})
    assert not doubted(FEW, preset="paper")
    assert doubted(FEW, **{"loss.teacher_weight": 3.0, "loss.doubt_teacher": True})
    assert not doubted(FEW, **{"loss.doubt_teacher": False})
    assert not resolve(make_config({}), FEW).loss.doubt_teacher
    with pytest.raises(InputError, match=r"loss\.doubt_teacher needs train\.shards = 1"):
        doubted(FEW, **{"loss.doubt_teacher": True, "train.shards": 2})


def test_where_links_say_nothing_classes_do_without_contexts_and_groups():
    lost = replace(APART, links_tell=False)
    told, untold = resolve(CLASSIFY, APART), resolve(CLASSIFY, lost)
    assert told.model.class_groups
    assert told.loss.teacher_weight > 0
    assert not untold.model.class_groups
    assert untold.loss.teacher_weight == untold.loss.context_weight == 0
    assert any("links say nothing" in note for note in explain_resolved(CLASSIFY, lost))
    # Where one class is much larger, links without sense join equal labels all the same.
    unequal = resolve(CLASSIFY, replace(FEW, links_tell=False))
    assert unequal.model.class_steps == unequal.loss.teacher_weight == 0
    assert unequal.loss.context_weight == 0 < resolve(CLASSIFY, FEW).loss.context_weight
    given = {"model.class_steps": 3, "model.class_groups": True}
    given |= {"task": "classify", "loss.context_weight": 1.0, "loss.teacher_weight": 3.0}
    asked = make_config(given)
    assert not any("links say nothing" in note for note in explain_resolved(asked, lost))
    embed = make_config({})
    assert resolve(embed, lost).loss == resolve(embed, APART).loss
    assert not any("links say nothing" in note for note in explain_resolved(embed, lost))


@pytest.mark.parametrize(
    ("labels", "weight"), [(5.0, 0.2), (100.0, 0.2), (280.0, 0.071), (4e3, 5e-3)]
)
def test_contexts_weigh_less_the_more_labels_there_are(labels: float, weight: float) -> None:
    facts = GraphFacts(5000, 9000, num_classes=2, labels_per_class=labels)
    assert resolve(make_config({"task": "classify"}), facts).loss.context_weight == weight
    assert resolve(make_config({}), facts).loss.context_weight == 1.0


def test_groups_do_not_teach_a_network_that_knows_every_link():
    facts = GraphFacts(500, 900, num_classes=2, neighbors_tell=True, labels_per_class=80.0)
    assert resolve(CLASSIFY, facts).loss.teacher_weight == 0
    few = replace(facts, has_few_labels=True)
    assert resolve(CLASSIFY, few).loss.teacher_weight == 0.25


@pytest.mark.parametrize("has_few", [True, False])
@pytest.mark.parametrize(
    ("labels", "weight"), [(2, 3), (5, 3), (20, 1), (80, 0.25), (1000, 0.02), (1100, 0)]
)
def test_groups_say_less_of_classes_the_more_labels_there_are(has_few, labels, weight):
    facts = GraphFacts(5000, 9000, num_classes=2, has_few_labels=has_few, labels_per_class=labels)
    assert resolve(CLASSIFY, facts).loss.teacher_weight == weight


def test_an_agreement_that_may_be_chance_is_trusted():
    unsure = GraphFacts(
        500, 900, num_classes=2, has_few_labels=True, agreement=0.5, agreement_error=0.1
    )
    assert resolve(CLASSIFY, unsure).model.class_steps == 10


def test_own_features_switch_residual_paths_on_for_classes_only():
    facts = GraphFacts(500, 900, num_classes=2, own_features_help=True)
    assert resolve(CLASSIFY, facts).model.residual
    assert not resolve(make_config({}), facts).model.residual
    assert any("residual" in note for note in explain_resolved(CLASSIFY, facts))
    asked = make_config({"task": "classify", "model.residual": False})
    assert not any("residual" in note for note in explain_resolved(asked, facts))


def test_groups_come_from_classes_or_from_size():
    embed = make_config({})
    assert default_groups(embed, GraphFacts(180, 900)) == (10, 4)
    assert default_groups(CLASSIFY, GraphFacts(180, 900, num_classes=6)) == (22, 6)
    assert default_groups(make_config({"layers": 3, "dim": 96}), GraphFacts(180, 900))[-1] == 4
    assert len(default_groups(make_config({"layers": 1}), GraphFacts(180, 900))) == 1
    assert default_groups(embed, GraphFacts(3, 4)) == (2, 2)
    assert default_groups(CLASSIFY, GraphFacts(180, 900, num_classes=90)) == (64, 64)
    # Labels of which a node has several do not cut the graph into as many parts.
    assert default_groups(CLASSIFY, GraphFacts(2000, 9000, num_classes=20, is_multi=True)) == (
        28,
        7,
    )
    assert default_groups(CLASSIFY, GraphFacts(2000, 9000, num_classes=5, is_multi=True)) == (20, 5)
    # What a search of the graph found wins over its size, and never over classes.
    found = GraphFacts(180, 900, num_classes=6, found_groups=(12, 1))
    assert default_groups(embed, found) == (12, 1)
    assert default_groups(CLASSIFY, found) == (22, 6)


def test_dropout_falls_with_size_within_bounds():
    rates = [RateBySize(0.8, 0.5, 0.2).at(n) for n in (2, 100, 2708, 20_000, 10**7)]
    assert rates[:3] == [0.8, 0.8, 0.8]
    assert rates[2] > rates[3] > rates[4] == 0.2


def test_memory_decides_between_the_whole_graph_and_samples():
    large, few = GraphFacts(10**7, 10**9, 100), {"train.epochs": 5}
    assert resolve(make_config(few), CORA).train.batch == "full"
    assert resolve(make_config(few), large).train.batch == "sampled"
    assert resolve(make_config({"train.memory_gib": 1e5, **few}), large).train.batch == "full"
    assert resolve(make_config({"train.batch": "full"}), large).train.batch == "full"
    assert resolve(make_config({"train.shards": 2}), CORA).train.batch == "sampled"


def test_many_nodes_without_labels_take_a_few_small_steps():
    """Whatever memory there is, and however many nodes."""
    for nodes in (60_000, 10**7):
        large = GraphFacts(nodes, 10 * nodes, 100, free_memory=1 << 40)
        train = resolve(make_config({}), large).train
        assert (train.batch, train.batch_size, train.epochs * train.epoch_steps) == (
            "sampled",
            64,
            512,
        )
        assert train.dropout <= 0.1
        # One contrast set for each shard.
        assert resolve(make_config({"train.shards": 3}), large).train.batch_size == 192
        assert resolve(make_config({"train.batch_size": 32}), large).train.batch_size == 32
    middle = resolve(make_config({}), GraphFacts(50_000, 500_000, 100)).train
    assert (middle.batch, middle.epochs, middle.dropout) == ("full", 80, 0.5)
    # Vectors of single nodes are learned one by one.
    tables = resolve(make_config({"loss.context": "skipgram", "train.batch": "sampled"}), large)
    assert tables.train.batch_size == 512


def test_what_is_free_decides_and_is_not_asked_again():
    middle = GraphFacts(500_000, 5_000_000, 100)
    roomy, tight = (replace(middle, free_memory=gib << 30) for gib in (64, 2))
    open_settings = make_config({"train.epochs": 5})
    whole, parts = resolve(open_settings, roomy), resolve(open_settings, tight)
    assert (whole.train.batch, parts.train.batch) == ("full", "sampled")
    # What made the numbers is in the config: another machine goes on with it.
    assert resolve(whole, tight) == whole
    assert resolve(parts, roomy) == parts
    # What the user says counts more than what is free.
    said = make_config({"train.memory_gib": 99, "train.epochs": 5})
    assert resolve(said, tight).train.batch == "full"


@pytest.mark.parametrize("gib", [0.5, 1, 4, 16, 2000, None])
def test_small_graphs_are_fitted_alike_on_every_machine(gib):
    facts = replace(CORA, free_memory=None if gib is None else int(gib * (1 << 30)))
    for settings in ({}, {"preset": "paper"}, {"train.batch": "sampled"}):
        assert resolve(make_config(settings), facts) == resolve(make_config(settings), CORA)


def test_batches_shrink_where_that_helps():
    facts = GraphFacts(2_000_000, 20_000_000, 16)

    def size(free, **settings):
        config = make_config({"train.batch": "sampled", "train.epochs": 5}, settings)
        return resolve(config, replace(facts, free_memory=free)).train.batch_size

    assert size(1 << 40) == size(None, **{"train.batch_size": 512}) == 512
    # Half the targets take 2 GiB less; fewer save nothing, because reading all nodes takes more.
    assert size(9 << 30) == size(1 << 20) == 256
    assert size(1 << 20, **{"train.batch_size": 300}) == 300


@pytest.mark.parametrize(
    ("nodes", "settings", "epochs"),
    [
        (40_960, {}, 75),  # eighty steps a pass
        (512_000_000, {}, 8),  # of 64 steps each: far less than one pass
        (512_000_000, {"train.epoch_steps": 0}, 4),
        (1000, {}, 80),  # never more than the whole graph gets
        (40_960, {"train.epoch_steps": 10}, 600),
        (40_960, {"train.epoch_steps": 500}, 75),
        (512_000_000, {"train.epochs": 3}, 3),
    ],
)
def test_sampled_passes_take_about_as_many_steps_as_quality_grows_for(nodes, settings, epochs):
    settings = make_config({"train.batch": "sampled", **settings})
    assert resolve(settings, GraphFacts(nodes, nodes)).train.epochs == epochs


def test_context_tables_are_chosen_by_size():
    paper = make_config({"loss.context": "skipgram", "groups": (12, 5)})
    # Seventeen groups of 64 numbers of four bytes: 256 MiB hold the vectors of 61,680 nodes.
    assert resolve(paper, GraphFacts(61_680, 9)).loss.context_table == "full"
    assert resolve(paper, GraphFacts(61_681, 9)).loss.context_table == "factored"
    assert resolve(make_config({}), CORA).loss.context_table == "inductive"


@pytest.mark.parametrize(
    ("settings", "facts", "words"),
    [
        ({"groups": (181, 5)}, GraphFacts(180, 9), "181 groups .* only 180 nodes"),
        ({"task": "classify"}, GraphFacts(180, 9), "needs labels"),
        ({"loss.context_table": "full"}, CORA, "loss.context = 'skipgram'"),
        ({"train.batch": "full", "train.shards": 3}, CORA, "train.shards = 3"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(settings, facts, words):
    with pytest.raises(InputError, match=words) as caught:
        resolve(make_config(settings), facts)
    assert "\n" not in str(caught.value)


def test_decisions_are_said_in_words():
    (few,) = explain_resolved(make_config({"task": "classify", "groups": (9, 7)}), FEW)
    assert "scores are spread" in few
    notes = explain_resolved(CLASSIFY, APART)
    assert "7 classes" in notes[0]
    assert "only 30% of the links" in notes[1]
    assert "no features" in notes[2]
    assert explain_resolved(make_config({"groups": (9, 7)}), FEW) == ()


def test_links_as_inputs_are_a_matter_of_labels_and_of_the_block_model():
    facts = GraphFacts(2000, 9000, 30, num_classes=4, neighbors_tell=True)
    assert resolve(make_config({"task": "classify"}), facts).inputs.link_rows
    assert not resolve(make_config({}), facts).inputs.link_rows
    assert not resolve(make_config({"task": "classify"}, preset="paper"), facts).inputs.link_rows
    with pytest.raises(InputError, match="membership_input"):
        resolve(make_config({"inputs.link_rows": True}, preset="paper"), facts)
