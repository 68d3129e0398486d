"""The documentation: generated pages are current, every page is on the site, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from perfdoctor.wire import names
from tests.support import contract_page
from tests.support.contract import PARTS, PROMISES
from tests.support.paths import DOCS, PACKAGE, ROOT, TESTS

pytestmark = pytest.mark.process

PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.process
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


@pytest.mark.parametrize("folder", ["tips", "tweaks", "decisions", "bottlenecks"])
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


def test_every_promise_is_shown_by_a_test_or_says_what_is_missing():
    marked = contract_page.shown(TESTS)
    assert set(marked) - set(PROMISES) == set(), "marks that name no row of tests/support/contract.py"
    assert {name for name, row in PROMISES.items() if name not in marked and not row.missing} == set()
    assert {name for name, row in PROMISES.items() if name not in marked and row.stand_in} == set()
    assert len(PROMISES) == sum(len(part.rows) for part in PARTS), "two rows have one name"


def test_marks_are_read_off_the_tests_that_carry_them(tmp_path):
    (tmp_path / "test_odd.py").write_text(
        "@pytest.mark.slow\n@pytest.mark.shows('exits', 'raises')\ndef test_it_ends_at_once(): pass\n"
        "def test_without(): 'pytest.mark.shows'\n"
    )
    found = contract_page.shown(tmp_path)
    assert set(found) == {"exits", "raises"}
    (test,) = found["exits"]
    assert (test.file, test.sentence) == ("test_odd.py", "it ends at once")


def test_links_between_pages_lead_to_files_and_headings():
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in [*PAGES, *ROOT.glob("*.md")]
        for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not _leads_somewhere(page, link)
    ]
    assert not broken, "\n" + "\n".join(broken)


def _leads_somewhere(page, link):
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in _anchors(target.read_text(encoding="utf-8")))


def _anchors(text):
    """What a heading is called in a link: lower case, words joined by dashes."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


SCORES = re.compile(r"^\| (.+?) \| (\d+) of (\d+) \|", re.MULTILINE)


def test_the_scores_in_short_are_the_sums_of_the_first_scores_and_the_readme_says_the_same():
    whole = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    short, _, rest = whole.partition("## Sample scripts")
    sums = {}
    for table in re.findall(r"^\| \| first score \|.*\n((?:\|.*\n)+)", rest, re.MULTILINE):
        for name, right, of in SCORES.findall(table):
            known = sums.get(name, (0, 0))
            sums[name] = (known[0] + int(right), known[1] + int(of))
    assert {name: (int(right), int(of)) for name, right, of in SCORES.findall(short)} == sums
    for right, of, percent in re.findall(r"\| (\d+) of (\d+) \| (\d+) % \|", short):
        assert round(100 * int(right) / int(of)) == int(percent)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    right, of = sums["verdict right"]
    assert f"On {of} training scripts" in readme
    assert f"right in {right} ({right / of:.0%}), and".replace("%", " %") in readme
    assert "of {1} planted causes {0} were the first".format(*sums["cause first"]) in readme


def test_the_page_of_the_run_directory_lists_each_file_that_the_probe_writes():
    constants = [value for name, value in vars(names).items() if name.isupper() and name != "RUN_VARIABLE"]
    made = [
        names.events_file("rank0"),
        names.stacks_file("rank0"),
        names.trace_file("rank0", 0),
        *(names.rows_file(kind, "rank0") for kind in ("steps", "collectives", "loader", "workers")),
    ]
    page = (DOCS / "run-directory.md").read_text(encoding="utf-8")
    assert [name for name in [*constants, *made] if f"`{name}" not in page] == []


def test_pages_on_the_inside_name_files_that_are_there():
    pages = [DOCS / "architecture.md", DOCS / "run-directory.md", *sorted((DOCS / "decisions").glob("*.md"))]
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists() and not (PACKAGE / name).exists()
    ]
    assert not gone, "\n" + "\n".join(gone)
