"""Makes the documentation as a site, with search: ``python -m docs.site``.

    python -m docs.site                       build/site, which any web server can serve
    python -m docs.site --serve               the same at http://127.0.0.1:8000, made anew when it is started again

The pages are laid out in the site as they are in the repository, so that a link which works in the repository works in
the site, links to source files included. The navigation is made from the lists of ``docs/index.md``: a page that is
listed there has its place, under the heading and with the words that it has there.

zensical builds the site, and ends with an error when a link or an anchor leads nowhere.
"""

import argparse
import contextlib
import http.server
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/index.md"
BUILD = ROOT / "build" / "site"
HOME = "README.md"
CHANGES = "CHANGELOG.md"
"""No page of the documentation links to it."""

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
_LISTED = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)[^)]*\)")
_CODE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site, and serve it if asked. Returns an exit code: 1 when the site cannot be built."""
    assert __doc__
    parser = argparse.ArgumentParser("docs.site", None, __doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD, help=f"where (default: {BUILD.name} in build)")
    parser.add_argument("--serve", action="store_true", help="serve it on 127.0.0.1:8000 until Ctrl-C")
    options = parser.parse_args(arguments)
    if code := build(options.folder):
        return code
    print(f"the site is in {options.folder}")
    if options.serve:
        handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(options.folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 8000), handler) as server:
            print("http://127.0.0.1:8000/ (Ctrl-C ends it)")
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
    return 0


def build(folder: Path, root: Path = ROOT) -> int:
    """Build the site of a tree in this folder. Returns the exit code of the builder, whose messages are printed."""
    source = folder.with_name(folder.name + "-source")
    shutil.rmtree(source, ignore_errors=True)
    for path in sorted(files(root)):
        place = path.relative_to(root)
        copy = source / "pages" / ("index.md" if path == root / HOME else place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            up = "../" * (len(place.parts) - 1)
            text = path.read_text("utf-8").replace(f"]({up}{HOME}", f"]({up}index.md")
            copy.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, copy)
    configuration = source / "zensical.toml"
    configuration.write_text(_toml(root), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(configuration)]
    if code := subprocess.run(command, cwd=source, check=False).returncode:
        return code
    shutil.rmtree(folder, ignore_errors=True)
    (source / "site").rename(folder)  # the builder writes below its own folder only
    return 0


def files(root: Path = ROOT) -> set[Path]:
    """All pages and pictures of ``docs``, the files of the tree to which they link, and to which these link."""
    found = {*root.glob("docs/**/*.md"), *root.glob("docs/**/*.svg"), root / HOME, root / CHANGES}
    to_read = [path for path in found if path.suffix == ".md"]
    while to_read:
        page = to_read.pop()
        linked = {(page.parent / link).resolve() for link in _LINK.findall(_CODE.sub("", page.read_text("utf-8")))}
        new = {path for path in linked if path.is_file()} - found
        found |= new
        to_read += [path for path in new if path.suffix == ".md"]
    return found


def navigation(root: Path = ROOT) -> list[Mapping[str, list[Mapping[str, str]]]]:
    """The headings of the index, each with its pages in the order in which they are listed; a page has one place."""
    index, seen = root / INDEX, {HOME}
    sections: list[Mapping[str, list[Mapping[str, str]]]] = []
    for part in index.read_text("utf-8").split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        pages: list[Mapping[str, str]] = []
        for title, link in _LISTED.findall(" ".join(text.split())):
            path = (index.parent / link).resolve().relative_to(root).as_posix()
            if path not in seen:
                seen.add(path)
                pages.append({title[0].upper() + title[1:]: path})
        sections.append({heading: pages})
    return sections


def _toml(root: Path) -> str:
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    pages = [{"Headgate": "index.md"}, {"Contents": INDEX}, *navigation(root), {"Changes": CHANGES}]
    inline = json.dumps(pages, ensure_ascii=False)
    # TOML's inline tables are JSON's objects but for the colon.
    nav = re.sub(r'("(?:[^"\\]|\\.)*"): ', r"\1 = ", inline)
    return _CONFIGURATION.format(nav=nav, version=version)


_CONFIGURATION = """\
[project]
site_name = "Headgate {version}"
site_description = "An AMQP 1.0 message broker that tells you why a publisher is waiting"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = ["navigation.indexes", "navigation.top", "navigation.footer", "toc.follow", "search.highlight",
            "content.code.copy", "content.tabs.link"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark colours"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light colours"

[project.markdown_extensions.admonition]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.tables]
[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
[project.markdown_extensions.pymdownx.highlight]
anchor_linenums = true
[project.markdown_extensions.pymdownx.inlinehilite]
[project.markdown_extensions.pymdownx.superfences]
custom_fences = [{{ name = "mermaid", class = "mermaid", format = "pymdownx.superfences.fence_code_format" }}]
"""


if __name__ == "__main__":
    sys.exit(main())
