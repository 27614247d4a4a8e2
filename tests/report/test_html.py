"""The report is one file that needs nothing else and takes no text for markup."""

import html
import json
import re
from pathlib import Path

import pytest

from graphham.cli import main
from graphham.errors import InputError
from graphham.report import RunView, write_report
from graphham.report.html import report_page
from tests.hostile import ATTACKS, write_hostile_run
from tests.report.conftest import write_run


@pytest.mark.parametrize("labels", ["multi", "integer", "none"])
@pytest.mark.parametrize("groups", [(5, 3, 2), (1,), (6, 1)])
def test_every_kind_of_run_has_a_report(tmp_path: Path, labels: str, groups: tuple) -> None:
    page = write_report(write_run(tmp_path / "run", labels=labels, groups=groups)).read_text()
    assert page.count("data-figure") >= 3
    pictures = re.findall(r'data-figure="([^"]+)"', page)
    sentences = re.findall(r'<p class="finding"[^>]*>([^<]+[.])</p>', page)
    # The map has one per colouring, the table of nodes between groups one, every other picture one.
    switches = re.findall(r'name="color" value="([^"]+)"', page)
    extra = max(len(switches) - 1, 0) + ('id="boundary"' in page)
    assert len(sentences) == len(pictures) + extra


def test_the_page_needs_nothing_from_outside(view: RunView) -> None:
    page = write_report(view).read_text("utf-8")
    assert len(page) < 8e6
    ours = page[: page.index('<script type="application/json"')]
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", ours)
    assert "@import" not in ours
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = html.unescape(policy[1])
    assert "default-src 'none'" in rules
    assert "'unsafe-inline'" not in rules.split("style-src")[0]
    assert "connect-src" not in rules  # so default-src forbids every request
    for row in view.groups:
        assert html.escape(row["name"]) in page


def test_hostile_text_never_becomes_markup(tmp_path: Path) -> None:
    run = write_hostile_run(tmp_path / "run")
    page = write_report(run).read_text("utf-8")
    scripts = re.findall(r"<script[^>]*>", page)
    assert len(scripts) == 4
    for attack in ATTACKS[:5]:
        assert attack not in page
    assert ATTACKS[5] in page  # shown as it is, not computed by a template
    figures_json = page.split('id="figures">')[1].split("</script>")[0]
    texts = json.dumps(json.loads(figures_json))
    assert "<script" not in texts
    assert "<img" not in texts
    assert "\u202e" not in page
    assert len(page) < 12e6


def test_a_flow_is_drawn_only_where_levels_do_not_nest_exactly(tmp_path: Path) -> None:
    nested = RunView.of(write_run(tmp_path / "a"))
    assert nested.nests_exactly
    page = report_page(nested)
    assert 'data-figure="flow"' not in page
    assert 'data-figure="levels"' not in page
    assert 'class="fine"' in page
    loose = RunView.of(write_run(tmp_path / "b", tree=False))
    assert not loose.nests_exactly
    assert 'data-figure="flow"' in report_page(loose)
    single = RunView.of(write_run(tmp_path / "c", groups=(4,)))
    assert 'id="allgroups"' not in report_page(single)


def test_renamed_groups_have_their_new_name_in_the_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run").rename_group(2, 0, "my & own")
    assert "my &amp; own" in write_report(run).read_text("utf-8")


def test_the_command_writes_one_file_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    out = tmp_path / "page.html"
    assert main(["report", str(run.path), "--out", str(out)]) == 0
    before = out.read_bytes()
    assert main(["report", str(run.path), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main(["report", str(run.path)]) == 0
    assert main(["report", str(run.path)]) == 0  # its own report may be written again
    assert main(["report", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    import importlib.util

    run = write_run(tmp_path / "run")
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == package else real(n, *a)
    )
    with pytest.raises(InputError, match=rf"{package}.*pip install 'graphham\[view\]'"):
        write_report(run)
