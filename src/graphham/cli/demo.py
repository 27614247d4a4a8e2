"""``graphham demo``: fit the embedded Cora graph and tell what was found."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_OUT = "runs/cora-demo"


def demo(
    out: Annotated[
        str, typer.Option("--out", metavar="RUN", help="Run folder; an earlier demo is replaced.")
    ] = DEFAULT_OUT,
    is_fast: Annotated[
        bool, typer.Option("--fast", help="A quarter of the training: a first look.")
    ] = False,
) -> None:
    """Fit the citation graph Cora, which comes with the package, and show its groups.

    Example:
      graphham demo
    """
