"""How Sphinx builds these pages; `make docs` runs it."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "scripts"))

import graphham  # noqa: E402
from docs_cli import write_page  # noqa: E402

# The command reference follows the program as it is installed, so it is not kept in git.
write_page()

project = "graphham"
author = "the graphham authors"
release = graphham.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
# Links into other projects need their indexes from the web: sphinx-build -t online.
if tags.has("online"):  # type: ignore[name-defined] # noqa: F821
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
}

html_theme = "furo"
html_title = "graphham"
exclude_patterns = ["_build", "presets_table.md"]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Shapes", "params_style")]
