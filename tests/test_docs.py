"""The documentation: generated pages are current, every page is on the site, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def test_the_generated_pages_are_current():
    checked = subprocess.run(
        [sys.executable, str(DOCS / "pages.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_every_page_but_those_behind_an_index_is_named_in_the_site():
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES}
    behind = {page for page in pages if "/" in page and not page.endswith("/index.md")}
    assert named == pages - behind


@pytest.mark.parametrize("folder", ["tips", "tweaks"])
def test_an_index_leads_to_every_page_of_its_folder(folder):
    index = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in (DOCS / folder).glob("*.md")} - {"index.md"} == set(
        re.findall(r"\]\(([\w-]+\.md)\)", index)
    )


def test_a_page_that_is_not_what_its_source_says_is_found_and_written_anew(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
    assert spec is not None
    pages = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(pages)
    for name in ("TIPS", "TWEAKS"):
        monkeypatch.setattr(pages, name, tmp_path / name)
    monkeypatch.setattr(pages, "FOLDERS", (pages.TIPS, pages.TWEAKS))
    pages.write()
    assert pages.stale() == []
    (pages.TWEAKS / "workers.md").write_text("# edited by hand")
    (pages.TWEAKS / "removed.md").write_text("# of a tweak that is gone")
    (pages.TIPS / "slow-collate.md").unlink()
    assert {path.name for path in pages.stale()} == {"workers.md", "removed.md", "slow-collate.md"}
    pages.write()
    assert pages.stale() == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_between_pages_lead_to_files(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
