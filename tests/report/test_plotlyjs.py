"""plotly.js is served as it was installed."""

from pathlib import Path

import pytest

from graphham.report import plotlyjs


def test_plotly_is_served_as_installed_but_for_one_pair_of_parentheses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plotlyjs.plotly_path().read_bytes()
    served = plotlyjs.plotly_script()
    bare = served.replace(b": this, (() => {", b": this, () => {", 1).rstrip()
    assert bare.removesuffix(b"})));") + b"}));" == source.rstrip()
    assert len(served) == len(source) + 2
    other = tmp_path / "plotly.min.js"
    other.write_bytes(b"window.Plotly = 1;")
    monkeypatch.setattr(plotlyjs, "plotly_path", lambda: other)
    assert plotlyjs.plotly_script() == other.read_bytes()
