"""``python -m benchmarks run NAME... | all``, ``page``, ``peers`` and ``list``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code."""
    from benchmarks import peers, results, runner
    from benchmarks.cases import CASES

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run benchmarks, or all of them, shortest first")
    run.add_argument("names", nargs="+", choices=[*CASES, "all"], metavar="NAME")
    run.add_argument("--quick", action="store_true", help="tiny sizes; only shows that it works")
    run.add_argument("--again", action="store_true", help="repeat what was measured today")
    run.add_argument("--no-peers", action="store_true", help="measure graphham alone")
    one = commands.add_parser("measure", help="measure one benchmark in this process")
    one.add_argument("names", choices=list(CASES), metavar="NAME")
    one.add_argument("--quick", action="store_true")
    one.add_argument("--folder", type=Path, default=results.FOLDER)
    page = commands.add_parser("page", help="write docs/benchmarks.md and its plots")
    page.add_argument("--check", action="store_true", help="only compare")
    get = commands.add_parser("peers", help="make the peers' environments")
    get.add_argument("--again", action="store_true", help="try again what failed")
    commands.add_parser("list", help="name the benchmarks")
    given = parser.parse_args(arguments)
    if given.command == "run":
        failed = runner.run(given.names, given.quick, given.again, not given.no_peers)
        if failed:
            print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1 if failed else 0
    if given.command == "measure":
        print(runner.measure(given.names, given.quick, given.folder).name)
        return 0
    if given.command == "page":
        from benchmarks import page as pages

        stale = pages.write(check=given.check)
        if stale and given.check:
            print(f"out of date: {', '.join(stale)}; run: python -m benchmarks page")
        return 1 if stale and given.check else 0
    if given.command == "peers":
        for name, status in peers.install(given.again).items():
            print(f"{name}: {status.version if status.ok else status.reason}")
        return 0
    for name, case in CASES.items():
        print(f"{name:20s} {case.title}, about {case.minutes:g} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
