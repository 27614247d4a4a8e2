"""One process of a training job that takes a few steps and says how long they took.

python -m benchmarks.rank_steps STORE STEPS SHARDS, with the environment of torch.distributed
"""

from __future__ import annotations

import itertools
import json
import sys
import time

import torch

from benchmarks.context import make_trainer, training_settings
from graphham.graph.store import open_store
from graphham.parallel.ranks import joined


def main() -> None:
    """Join the job, warm up, take the steps and print the seconds of this process."""
    store, steps, shards = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    changes = {"train__shards": shards, "model__group_init": "random", "train__batch_size": 512}
    with joined() as ranks:
        trainer = make_trainer(open_store(store), training_settings("paper", **changes), ranks)
        source = iter(trainer._steps(0))
        for _ in itertools.islice(source, 2):
            pass
        ranks.wait()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in itertools.islice(source, steps):
            pass
        ranks.wait()
        taken = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
