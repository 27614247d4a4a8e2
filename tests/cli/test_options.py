"""Options that several commands share reach the command as one object."""

import inspect
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from graphham.cli.options import NO_OPTIONS, GraphOptions, open_graph, takes_options
from graphham.errors import InputError


@pytest.mark.parametrize("left_out", [(), ("labels",)])
def test_a_command_gets_the_options_of_its_graph_as_one(left_out: tuple[str, ...]) -> None:
    seen: list[GraphOptions] = []

    @takes_options(*left_out)
    def command(
        name: Annotated[str, typer.Argument()],
        options: GraphOptions = NO_OPTIONS,
        last: Annotated[bool, typer.Option("--last")] = False,
    ) -> None:
        assert (name, last) == ("x", True)
        seen.append(options)

    names = list(inspect.signature(command).parameters)
    assert names[0] == "name"
    assert names[-1] == "last"
    assert "options" not in names
    assert ("labels" in names) == (not left_out)
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, ["x", "--features", "f.csv", "--id", "node", "--last"])
    assert done.exit_code == 0, done.output
    assert seen == [GraphOptions(features="f.csv", id_column="node")]


def test_edge_options_are_refused_where_there_are_no_edges_to_read() -> None:
    with pytest.raises(InputError, match="--weight only applies to edge files, but cora is a data"):
        open_graph("cora", GraphOptions(weight="w"))
    with pytest.raises(InputError, match="there is no file 'corra' and"):
        open_graph("corra", GraphOptions())


def test_options_can_be_typed_again() -> None:
    given = GraphOptions(
        features="my nodes.csv:a,b", id_column="who", directed=True, max_unpacked=2.5
    )
    assert (
        given.as_flags() == "--features 'my nodes.csv:a,b' --id who --directed --max-unpacked 2.5"
    )
    assert NO_OPTIONS.as_flags() == ""
