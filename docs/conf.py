"""The site: `python -m sphinx -W -b html docs build/site` (extra `docs`)."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from pictures import make_pictures

import npcompile

project = "npcompile"
author = "the npcompile developers"
version = release = npcompile.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_theme = "pydata_sphinx_theme"
html_title = "npcompile"
html_static_path = ["_static"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "use_edit_page_button": False,
}

make_pictures(Path(__file__).parent / "_static")


RESULTS = re.compile(r"\]\(\.\./benchmarks/results/(\w+)\.md\)")
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./benchmarks[^)]*\)")


def link_within_the_site(app: Sphinx, page: str, text: list[str]) -> None:
    """In the repository, pages of figures lie beside the benchmarks that wrote them; on the site, in a folder of its own."""
    text[0] = OUTSIDE.sub(r"\1", RESULTS.sub(r"](/figures/\1.md)", text[0]))


def setup(app: Sphinx) -> None:
    app.connect("source-read", link_within_the_site)
