"""Speed and memory of graphham beside its peers; ``python -m benchmarks`` runs them.

Every comparison interleaves both sides in one run, one thread each, so that a busy machine slows
both alike; what counts are ratios. See docs/benchmarks.md, which is generated from the results.
"""
