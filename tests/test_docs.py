"""The documentation must say what the program does: generated tables, links, names and examples."""

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import graphham
from experiments.stored import write_stored
from experiments.studies import load_study
from graphham.config.settings import ModelConfig, make_config, setting_names

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Written by the build, not kept in git.
BUILT = {DOCS / "cli.md"}
PAGES = sorted(set(DOCS.rglob("*.md")) - set((DOCS / "_build").rglob("*.md")) - BUILT)
sys.path.insert(0, str(ROOT / "scripts"))

import docs_cli  # noqa: E402
import docs_generate  # noqa: E402
import docs_presets  # noqa: E402
import docs_readme  # noqa: E402
import docs_results  # noqa: E402
import docs_settings  # noqa: E402


def test_generated_files_are_up_to_date() -> None:
    for path, text in docs_generate.outputs().items():
        assert path.read_text("utf-8") == text, f"{path.name} is stale; run 'make docs-tables'"


def test_every_setting_is_in_the_reference_with_its_values() -> None:
    page = docs_settings.build()
    for name in setting_names():
        assert f"\n| `{name}` |" in page
    paper = make_config(preset="paper")
    assert f"paper `{paper.model.group_score}`" in page
    described = [n for n, field in ModelConfig.model_fields.items() if field.description]
    assert len(described) == len(ModelConfig.model_fields)


def test_every_command_and_option_is_in_the_reference() -> None:
    page = docs_cli.build()
    seen = 0
    for path, command in docs_cli.commands():
        section = page.split(f"\n## {path}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert f"`{parameter.opts[0]}" in section
                seen += 1
    assert seen > 20


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", _prose(page)):
            if "://" in target or target.startswith("mailto:"):
                continue
            found = (page.parent / target).resolve()
            assert found.exists() or found in BUILT, f"{page.name} links to {target}"


def test_every_page_is_in_a_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
    listed = {DOCS / f"{line}.md" for b in blocks for line in b.split() if not line.startswith(":")}
    included = {DOCS / "presets_table.md", DOCS / "index.md"}
    assert set(PAGES) | BUILT <= listed | included


def test_settings_named_in_the_pages_exist() -> None:
    known = set(setting_names())
    sections = {name.split(".")[0] for name in known if "." in name}
    pattern = rf"`((?:{'|'.join(sections)})\.[a-z_]+)(?: =[^`]*|=[^`]*)?`"
    found = {
        name
        for page in PAGES
        for name in re.findall(pattern, page.read_text("utf-8"))
        if page.name != "how-it-works.md" or name in known
    }
    assert found - known == {"model.safetensors"}  # a file
    assert len(found) > 30


def test_every_ambiguity_is_answered() -> None:
    text = (DOCS / "ambiguities.md").read_text("utf-8")
    parts = re.split(r"\n## (A\d+)\. ", text)
    answers = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(answers) == [f"A{i}" for i in range(1, 19)]
    for name, answer in answers.items():
        assert "**Default:**" in answer or "**Decision:**" in answer, name


def test_the_code_named_beside_each_equation_exists() -> None:
    text = (DOCS / "how-it-works.md").read_text("utf-8")
    rows = re.findall(r"^\| (E\d+) \|.*\| (.*) \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [f"E{i}" for i in range(1, 18)]
    for _, cell in rows:
        names = re.findall(r"`([a-z_]+\.[\w.]+)`", cell)
        assert names
        for name in names:
            _resolve(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_give_what_the_page_says(page: Path) -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, names, f"{page.stem}-{number}", None, 0)
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(test, clear_globs=False)
        assert runner.failures == 0
        names = test.globs


def test_python_examples_are_at_least_valid() -> None:
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            compile(block, page.name, "exec")


def test_an_unfinished_family_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_results, "RESULTS", tmp_path / "half")
    cells = [c for c in load_study("presets", methods=["default"]).cells if c.protocol == "links"]
    records = {
        cell.key: {"cell": cell.to_dict(), "metrics": {"auc": 0.5 + 0.2 * (cell.seed % 2)}}
        for cell in cells
    }
    write_stored(tmp_path / "whole", records)
    write_stored(tmp_path / "half", dict(list(records.items())[1:]))
    assert docs_results.read_metrics("presets", "cora", "links", "default") is None
    monkeypatch.setattr(docs_results, "RESULTS", tmp_path / "whole")
    found = docs_results.read_metrics("presets", "cora", "links", "default")
    assert found is not None
    assert docs_results.values(found, "auc").tolist() == [0.5, 0.7, 0.5, 0.7]


def test_differences_are_paired_and_bold_only_when_clear() -> None:
    base = [{"auc": value} for value in (0.90, 0.80, 0.70, 0.60)]
    lower = [{"auc": value} for value in (0.891, 0.791, 0.689, 0.589)]
    noisy = [{"auc": value} for value in (0.80, 0.90, 0.60, 0.69)]
    assert docs_presets.difference(lower, base, "auc") == "**0.740 (-0.010)**"
    assert docs_presets.difference(noisy, base, "auc") == "0.748 (-0.003)"
    assert docs_presets.difference(base, None, "auc") == "0.750"


def test_the_readme_keeps_what_is_outside_the_markers() -> None:
    text = f"before\n{docs_readme.BEGIN}\nstale words\n{docs_readme.END}\nafter\n"
    made = docs_readme.build(text)
    assert made.startswith("before\n")
    assert made.endswith(f"{docs_readme.END}\nafter\n")
    assert "stale words" not in made
    assert docs_readme.build(made) == made


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="sphinx is not installed")
def test_sphinx_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "MembershipAttention" in (tmp_path / "api.html").read_text("utf-8")


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def _resolve(name: str) -> object:
    """Find what a dotted name relative to the package stands for, modules first."""
    value: object = graphham
    for part in name.split("."):
        if isinstance(value, ModuleType) and not hasattr(value, part):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            value = getattr(value, part)
    return value


def test_every_feature_has_a_command_that_exists() -> None:
    text = (DOCS / "features.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| ([YP]) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 25
    for name, mark, cell in rows:
        assert re.findall(r"`[^`]+`", cell), name
        assert mark == "Y" or ";" in cell or ":" in cell, f"{name} does not say what is missing"
    assert "`graphham " in text


def test_commands_and_options_named_in_the_pages_exist() -> None:
    known = dict(docs_cli.commands())
    lines = []
    for page in [*PAGES, ROOT / "README.md"]:
        text = page.read_text("utf-8")
        lines += [(page.name, call) for call in re.findall(r"`(graphham [^`]+)`", text)]
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            joined = block.replace("\\\n", " ").splitlines()
            lines += [(page.name, line) for line in joined if line.startswith("graphham ")]
    assert len(lines) > 80
    for page_name, line in lines:
        words = line.partition("#")[0].split()
        path = next((p for p in (" ".join(words[:3]), " ".join(words[:2])) if p in known), None)
        if path is None:
            groups = {p.rpartition(" ")[0] for p in known}
            assert " ".join(words[:2]) in groups or words[1].startswith("--") or words[1].isupper()
            continue
        options = {opt for param in known[path].params for opt in param.opts}
        for word in words:
            if word.startswith("--") and word != "--help":
                assert word.partition("=")[0] in options, f"{page_name}: {line}"
