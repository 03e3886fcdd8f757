"""Settings of the documentation site; `make docs` builds it."""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from sparsegate_runtime.version import VERSION

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the notebooks: fast also on a busy machine

REPOSITORY = "https://github.com/sparsegate/sparsegate"
ROOT = Path(__file__).parent.parent

project = "sparsegate"
copyright = "the sparsegate developers"  # noqa: A001
version = release = VERSION
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "README.md"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

nb_execution_mode = "cache"  # a notebook runs again when its code changes
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

default_role = "code"  # docstrings write names in single backticks
autosummary_generate = False
autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "sparsegate"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {name: [] for name in ("tutorial", "results", "reproduction", "glossary")}
html_theme_options = {
    "github_url": REPOSITORY,
    "logo": {"text": "sparsegate"},
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
    "navigation_depth": 3,
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
}

ATTRIBUTES = ("attribute", "data", "property")
LINK = re.compile(r"\]\((\.\.?/[^)#\s]+)")


def link_to_repository(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Turns links that leave the folder docs into links to the repository."""
    folder = posixpath.dirname(f"docs/{docname}")

    def replaced(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        if path.startswith("docs/") and not path.endswith((".py", ".json")):
            return match[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{path}"

    source[0] = LINK.sub(replaced, source[0])


def hide_colons(_app: Sphinx, what: str, _name: str, *rest: Any) -> None:
    """Keeps napoleon from reading "what it is: more about it" as "type: description"."""
    if what in ATTRIBUTES:
        rest[-1][:] = [line.replace(":", "\0") for line in rest[-1]]


def show_colons(_app: Sphinx, what: str, _name: str, *rest: Any) -> None:
    """Undoes `hide_colons`."""
    if what in ATTRIBUTES:
        rest[-1][:] = [line.replace("\0", ":") for line in rest[-1]]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", link_to_repository)
    app.connect("autodoc-process-docstring", hide_colons, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", show_colons, priority=600)
