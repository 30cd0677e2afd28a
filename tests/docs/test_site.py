"""The site of the documentation: every link and anchor leads somewhere, and the navigation has what the index lists."""

import json
import re
from pathlib import Path

import pytest

from docs import site


def test_the_site_is_built_without_a_link_that_leads_nowhere(tmp_path: Path):
    folder = tmp_path / "site"

    assert site.build(folder) == 0

    assert "tells you why a publisher is waiting" in (folder / "index.html").read_text("utf-8")
    flow_control = (folder / "docs" / "flow-control.html").read_text("utf-8")
    assert 'class="mermaid"' in flow_control
    assert 'href="flow-reasons.html"' in flow_control
    found = json.loads((folder / "search.json").read_text("utf-8"))
    assert any("delivery-count" in item["text"] for item in found["items"])
    assert (folder / "config" / "broker.toml").read_bytes() == (site.ROOT / "config" / "broker.toml").read_bytes()


def test_a_dead_link_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    root = tmp_path / "tree"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Contents\n\n[nowhere](missing.md)\n", encoding="utf-8")
    (root / "README.md").write_text("# Home\n", encoding="utf-8")
    (root / "CHANGELOG.md").write_text("# Changes\n", encoding="utf-8")
    (root / "pyproject.toml").write_text('[project]\nversion = "1"\n', encoding="utf-8")

    assert site.build(tmp_path / "site", root) != 0

    assert "page does not exist" in capfd.readouterr().err


def test_the_navigation_has_each_page_of_the_index_once():
    listed = [
        path for section in site.navigation() for pages in section.values() for page in pages for path in page.values()
    ]

    assert len(listed) == len(set(listed))
    index = site.ROOT / site.INDEX
    links = re.findall(r"\]\(([^)#]+\.md)", index.read_text("utf-8"))
    paths = {(index.parent / link).resolve().relative_to(site.ROOT).as_posix() for link in links}
    assert paths - {site.HOME} == set(listed)
