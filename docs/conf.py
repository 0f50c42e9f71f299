"""How Sphinx builds the site: ``make docs``. The pages stay plain Markdown, readable where the code lies."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import storyframes  # noqa: E402 - of this checkout, whatever is installed

project = "storyframes"
author = "The storyframes authors"
copyright = author
release = version = storyframes.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples"]
html_theme = "pydata_sphinx_theme"
html_title = f"storyframes {release}"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_center": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},  # the front page has room for its code
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_sidebars = {"**": ["all-pages.html"]}
html_show_sourcelink = False
html_copy_source = False

# --- Markdown ---
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # pages link to each other's headings
suppress_warnings = ["misc.highlighting_failure"]  # a console block whose JSON goes over several lines

# --- the reference, from docstrings ---
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autosummary_generate = False  # the lists of names have no pages of their own

# --- tutorials are run: on the store in $STORYFRAMES_DEMO, which `make docs` and the tests extract ---
nb_execution_mode = "force" if os.environ.get("STORYFRAMES_DEMO") else "off"
nb_execution_show_tb = True
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # nothing is loaded from elsewhere


if not os.environ.get("STORYFRAMES_DEMO"):
    suppress_warnings.append("myst-nb.lexer")  # only a kernel says in which language cells are


def notebooks_find_the_demo() -> None:
    """Each notebook begins in an empty folder with links to the demo and the examples, and finds our commands."""
    links = {
        "storyframes-demo": (ROOT / os.environ["STORYFRAMES_DEMO"]).resolve(strict=True),
        "examples": Path(__file__).parent / "examples",
    }
    profile = Path(tempfile.mkdtemp(prefix="storyframes-docs-"))
    startup = profile / "profile_default" / "startup"
    startup.mkdir(parents=True)
    lines = ["import os", *(f"os.symlink({str(path)!r}, {name!r})" for name, path in links.items()), "del os"]
    (startup / "links.py").write_text("\n".join(lines))
    (profile / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
    atexit.register(shutil.rmtree, profile, ignore_errors=True)
    os.environ |= {"IPYTHONDIR": str(profile), "JUPYTER_RUNTIME_DIR": str(profile / "runtime"), "COLUMNS": "100"}
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


if os.environ.get("STORYFRAMES_DEMO"):
    notebooks_find_the_demo()


def name_files_beside_docs(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to files outside this folder work where the code lies; on the site the file is named instead."""
    up = re.escape("../" * (page.count("/") + 1))
    source[0] = re.sub(rf"\[([^\]]+)\]\({up}([^)#]+)\)", r"\1 (`\2` in the source)", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", name_files_beside_docs)
