"""A store in parts: every process has some of the nodes, and all draw what one would draw."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.graph.graph import Part
from graphham.graph.mapped_features import MappedFeatures, column_moments
from graphham.graph.planted import planted_hierarchy
from graphham.graph.spans import span_of
from graphham.graph.store import open_store, verify_store, write_store
from graphham.graph.store_parts import is_split, open_part, split_store
from graphham.parallel.partitioned_graph import (
    PartitionedFeatures,
    PartitionedSampler,
    joint_moments,
)
from graphham.parallel.ranks import Ranks
from graphham.sampling.sampler import NeighborSampler
from graphham.sampling.walks import sample_negatives, walk_contexts

NODES = 300
GRAPH = planted_hierarchy((2, 3), NODES, mean_degree=9, features="gaussian", dim=5, seed=3).graph


class Table:
    """Where threads that play processes put what they give each other."""

    def __init__(self, count):
        self.barrier, self.given = threading.Barrier(count), [None] * count


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """Ranks whose processes are threads of this one."""

    table: Table = field(default=None)

    def _all(self, given):
        self.table.given[self.rank] = given
        self.table.barrier.wait(30)
        held = list(self.table.given)
        self.table.barrier.wait(30)
        return held

    def gather(self, values):
        return [part.clone() for part in self._all(values)]

    def deliver(self, parts):
        came = [sent[self.rank] for sent in self._all(list(parts))]
        return torch.cat(came), [len(part) for part in came]

    def share_rows(self, values, span=8192):
        bounds = self.bounds(len(values), span)
        for rank, part in enumerate(self._all(values.copy())):
            values[bounds[rank] : bounds[rank + 1]] = part[bounds[rank] : bounds[rank + 1]]
        self.table.barrier.wait(30)


def in_parts(count, work):
    """Run ``work(part of the graph, ranks)`` as ``count`` processes; return their answers."""
    table = Table(count)

    def one(number):
        ranks = ThreadRanks(number, count, table=table)
        first, last = ranks.own_range(NODES, span_of(NODES))
        indices, features = np.zeros_like(GRAPH.indices), np.zeros_like(GRAPH.features)
        own = slice(GRAPH.indptr[first], GRAPH.indptr[last])
        indices[own], features[first:last] = GRAPH.indices[own], GRAPH.features[first:last]
        part = Part(number, count, first, last, "whole")
        return work(replace(GRAPH, indices=indices, features=features, part=part), ranks)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("fanout", [3, None])
def test_parts_draw_the_blocks_walks_and_negatives_of_the_whole(count, fanout):
    rng = np.random.default_rng(count)
    keys = [2**64 - 1 - r for r in range(count)]  # every process draws by a key of its own
    # The last process has nothing to ask and must answer all the same.
    asked = [rng.choice(NODES, 40 if r + 1 < count else 0, replace=False) for r in range(count)]

    def draw(graph, ranks):
        sampler, rows = PartitionedSampler(graph, ranks), asked[ranks.rank]
        key = keys[ranks.rank]
        blocks = [
            *sampler.sample_blocks(rows, [fanout, 4], key),
            sampler.sample_block(rows, fanout, key, self_edge=False),
        ]
        walks = sampler.walk_contexts(rows, 4, 3, key)
        return blocks, walks, sampler.sample_negatives(rows, 5, key)

    found = in_parts(count, draw)
    for rows, key, (blocks, walks, negatives) in zip(asked, keys, found, strict=True):
        whole = NeighborSampler(GRAPH)
        wanted = [
            *whole.sample_blocks(rows, [fanout, 4], key),
            whole.sample_block(rows, fanout, key, self_edge=False),
        ]
        for ours, theirs in zip(blocks, wanted, strict=True):
            np.testing.assert_array_equal(ours.indptr, theirs.indptr)
            np.testing.assert_array_equal(ours.indices, theirs.indices)
            np.testing.assert_array_equal(ours.source_rows, theirs.source_rows)
        np.testing.assert_array_equal(walks, walk_contexts(GRAPH, rows, 4, 3, key))
        np.testing.assert_array_equal(negatives, sample_negatives(GRAPH, rows, 5, key))


@pytest.mark.parametrize(("unit_rows", "blank"), [(False, 0), (True, 0), (False, 40)])
def test_parts_read_the_features_of_the_whole(unit_rows, blank):
    """Also where most rows without a measurement are in one part."""
    x = GRAPH.features.copy()
    x[:blank] = 0
    (mean, spread), count = column_moments(x, bool(blank))
    assert count == NODES - blank
    shift, factor = mean.astype("f4"), (1 / spread).astype("f4")
    whole = MappedFeatures(x, shift, factor, unit_rows, bool(blank))
    assert bool(whole.span(0, 40).any()) is not bool(blank)
    rows = np.random.default_rng(0).integers(0, NODES, 70)
    weight = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))

    def read(graph, ranks):
        graph = replace(graph, features=x)
        held = PartitionedFeatures.of(
            MappedFeatures(x, shift, factor, unit_rows, bool(blank)), ranks
        )
        moments = joint_moments(graph, ranks, bool(blank))
        return held.rows(rows), held.matmul(weight), held.leading_directions(3), moments

    for found, product, lead, moments in in_parts(3, read):
        assert torch.equal(found, whole.rows(rows))
        torch.testing.assert_close(product, whole.matmul(weight))
        np.testing.assert_allclose(lead, whole.leading_directions(3), atol=1e-5)
        np.testing.assert_allclose(moments, (mean, spread), rtol=1e-6, atol=1e-7)


def test_parts_average_and_add_up_neighbours_like_the_whole():
    from graphham.groups.block_model import GraphLinks
    from graphham.model.inputs import averaged

    x = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(1))

    def both(graph, ranks):
        links = GraphLinks(graph, ranks)
        return averaged(x, graph, ranks), links.sums(x.numpy()), links.degrees

    whole = GraphLinks(GRAPH)
    for mean, (total, arriving), degrees in in_parts(2, both):
        assert torch.equal(mean, averaged(x, GRAPH))
        np.testing.assert_array_equal(total, whole.sums(x.numpy())[0])
        assert arriving is None
        np.testing.assert_array_equal(degrees, whole.degrees)


def test_parts_find_the_groups_of_the_whole():
    """From the same inputs every process gets the bits that one process has alone."""
    from graphham.groups.group_map import GroupInputs, fit_from

    features, basis = torch.from_numpy(GRAPH.features), np.eye(5, dtype=np.float32)

    def fit(graph, ranks):
        seen = GroupInputs.of(features, basis, graph, False, ranks)
        return fit_from(seen, (6, 2), 0, seeds=1)

    alone = fit(GRAPH, Ranks())
    for found in in_parts(3, fit):
        for one, other in zip(found, alone, strict=True):
            assert one.bound == other.bound
            np.testing.assert_array_equal(one.memberships, other.memberships)
            for mine, theirs in zip(one.model.tables, other.model.tables, strict=True):
                np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("split")
    # Enough nodes for the groups' start to be read from some of them, as in a large graph.
    graph = planted_hierarchy(
        (2, 3), 4500, mean_degree=8, features="gaussian", dim=24, strength=3.0, seed=1
    ).graph
    whole = write_store(graph, folder / "whole")
    return whole, split_store(whole, 2, folder / "halves")


def keeps_holes(folder):
    """Whether the file system spares the room of what was never written."""
    probe = folder / "probe"
    with probe.open("wb") as file:
        file.truncate(1 << 20)
    return 512 * probe.stat().st_blocks < 1 << 19


def test_parts_take_room_for_their_own_nodes_only(stores):
    whole, halves = stores
    assert is_split(halves)
    assert not is_split(whole)
    graph = open_store(whole)
    parts = [open_part(halves, number, 2) for number in range(2)]
    assert (parts[0].part.first, parts[1].part.last) == (0, graph.num_nodes)
    assert parts[0].part.last == parts[1].part.first
    for part in parts:
        first, last = part.part.first, part.part.last
        own = slice(graph.indptr[first], graph.indptr[last])
        np.testing.assert_array_equal(part.indices[own], graph.indices[own])
        np.testing.assert_array_equal(part.features[first:last], graph.features[first:last])
        assert part.indices[: own.start].sum() + part.indices[own.stop :].sum() == 0
        assert not part.features[:first].any()
        assert not part.features[last:].any()
        assert part.fingerprint() == graph.fingerprint()
    for number in range(2):
        folder = halves / f"part-{number}"
        verify_store(folder)
        features = (folder / "features.npy").stat()
        assert features.st_size == (whole / "features.npy").stat().st_size
        if keeps_holes(halves.parent):
            assert 512 * features.st_blocks < 0.75 * features.st_size


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_split_fit_is_the_fit_of_the_whole_store(preset, stores, tmp_path, monkeypatch):
    from graphham.model import inputs
    from graphham.results.run_writer import Run
    from graphham.training import structure
    from tests.parallel.test_jobs import alone, command, run

    settings = {
        "preset": preset,
        "groups": (6, 2),
        "dim": 16,
        "inputs.group_dim": 8,  # fewer than there are features, so directions are looked for
        "train.epochs": 3,
        "train.batch": "sampled",
        "train.batch_size": 600,
        "train.fanouts": (5, 4),
        "train.shards": 3,  # one process has a shard more than the other
    }
    whole, halves = stores
    out = tmp_path / "split"
    done = run(command(halves, out, settings, "--processes=2"))
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(inputs, "KEPT_BYTES", 0)  # as for a table too large to be kept
    monkeypatch.setattr(structure, "_MOST_NODES", 0)  # nobody searches the groups of parts
    one, other = alone(whole, tmp_path / "whole", settings), Run.open(out)
    losses = [
        [json.loads(line)["loss"] for line in (r.path / "metrics.jsonl").read_text().splitlines()]
        for r in (one, other)
    ]
    # Column means are added up in another order; everything else is the same arithmetic.
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    same = [
        (a == b).mean() for a, b in zip(one.result().groups, other.result().groups, strict=True)
    ]
    assert min(same) > 0.99
    assert not other.summary["keeps_graph"]
    assert other.summary["graph"]["fingerprint"] == one.summary["graph"]["fingerprint"]


def test_what_parts_cannot_do_is_refused(stores, tmp_path, monkeypatch):
    from graphham.config.settings import make_config
    from graphham.parallel.partitioned_graph import check_split
    from tests.parallel.test_jobs import command, run

    whole, halves = stores
    part = open_part(halves, 0, 2)
    embed = make_config({"task": "embed"})
    ours = Ranks(0, 2)
    monkeypatch.setattr(Ranks, "collect", lambda self, value: [value, said])
    said = part.part.whole
    check_split(part, embed, ours)
    said = "another"
    with pytest.raises(InputError, match="not of one graph"):
        check_split(part, embed, ours)
    with pytest.raises(InputError, match="process 1 of 2"):
        check_split(part, embed, Ranks(1, 2))
    with pytest.raises(InputError, match="--task embed"):
        check_split(part, make_config({"task": "classify"}), Ranks(0, 2))
    moved = replace(part, part=replace(part.part, last=part.part.last + 1))
    with pytest.raises(InputError, match="split the store anew"):
        check_split(moved, embed, Ranks(0, 2))
    for read in (part.adjacency, part.edge_list, part.components):
        with pytest.raises(InputError, match="part 0 of 2"):
            read()
    with pytest.raises(InputError, match="part 0 of 2"):
        write_store(part, tmp_path / "copy")
    with pytest.raises(InputError, match="part 0 of 2"):
        NeighborSampler(part).sample_block([0], 2, 0)
    with pytest.raises(InputError, match="part 0 of 2"):
        walk_contexts(part, [0], 1, 1, 0)
    with pytest.raises(InputError, match="part 0 of 2 of a split store"):
        open_store(halves / "part-0")
    with pytest.raises(InputError, match="takes 2 processes, not 3"):
        open_part(halves, 0, 3)
    with pytest.raises(InputError, match="holds no parts"):
        open_part(whole, 0, 2)
    with pytest.raises(InputError, match="exists already"):
        split_store(whole, 2, halves)
    # Neither the store itself nor a folder with anything else in it is ever replaced.
    for taken in (whole, whole.parent):
        with pytest.raises(InputError, match="is not replaced"):
            split_store(whole, 2, taken, overwrite=True)
    assert verify_store(whole) > 0
    again = split_store(whole, 3, tmp_path / "thirds")
    assert is_split(split_store(whole, 2, again, overwrite=True))
    assert not (again / "part-2").exists()
    with pytest.raises(InputError, match="2 to 64"):
        split_store(whole, 65, tmp_path / "many")
    sparse = write_store(planted_hierarchy((2, 3), 300).graph, tmp_path / "sparse")
    with pytest.raises(InputError, match="dense features"):
        split_store(sparse, 2, tmp_path / "never")
    done = run(command(halves, tmp_path / "three", {"dim": 16}, "--processes=3"))
    assert done.returncode == 2
    assert done.stderr.count("takes 2 processes, not 3") == 1
    assert not list(tmp_path.glob("never*"))
    assert not list(tmp_path.glob("three*/*"))
