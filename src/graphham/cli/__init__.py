"""The command line: one module per family of commands, heavy imports inside the commands."""

from graphham.cli.main import app, main

__all__ = ["app", "main"]
