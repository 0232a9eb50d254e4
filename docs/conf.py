"""How Sphinx builds these pages: `make docs`. Nothing is fetched, so that it builds without a network."""

import re
from typing import Any

from sphinx.application import Sphinx

import dvcrypto

project = "dvcrypto"
author = "The dvcrypto authors"
copyright = author  # noqa: A001  # Sphinx's name
version = release = dvcrypto.versions()["dvcrypto"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_argparse_cli"]
myst_heading_anchors = 3
highlight_language = "text"  # where a block does not say
html_theme = "furo"
html_title = "dvcrypto"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_display_short_literal_types = True
# Types of other packages have no page here, and what is private has none either.
nitpick_ignore_regex = [("py:.*", r"(?!dvcrypto\.).*|.*\._\w+")]


# Pages of the repository's top folder, and where they stand here.
TOP_PAGES = {"SECURITY": "security", "CHANGELOG": "changelog", "CONTRIBUTING": "contributing", "README": "index"}


def find_top_pages(_: Sphinx, __: str, source: list[str]) -> None:
    """Let links that lead out of docs/, as they must in the repository, lead to the same page of the site."""
    for name, page in TOP_PAGES.items():
        source[0] = source[0].replace(f"](../{name}.md", f"]({page}.md")


def leave_out_aliases(*event: Any) -> None:
    """A named tuple's fields without a docstring have one of Python's making, which says nothing."""
    *_, lines = event
    lines[:] = [line for line in lines if not re.fullmatch(r"Alias for field number \d+", line)]


def setup(app: Sphinx) -> None:
    """Connect both."""
    app.connect("source-read", find_top_pages)
    app.connect("autodoc-process-docstring", leave_out_aliases)
