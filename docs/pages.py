"""Writes the generated pages and schemas under docs/: python docs/pages.py [--check].

With --check nothing is written, and the exit status is 1 where a page is not what the source says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from perfdoctor.model.tweak import Tweak
from perfdoctor.render.documents import history, link, loader, report, trace, trial
from perfdoctor.render.documents.schema import schema
from perfdoctor.render.pages import tips as tip_pages
from perfdoctor.render.pages import tweaks as tweak_pages
from perfdoctor.tips import catalogue
from perfdoctor.trials.settings import tweak_catalogue

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"
DOCUMENTS = {
    "report": report.REPORT,
    "trial": trial.TRIAL,
    "trace": trace.TRACE,
    "loader": loader.LOADER,
    "net": link.NET,
    "history": history.HISTORY,
}
TIPS, TWEAKS = DOCS / "tips", DOCS / "tweaks"
FOLDERS = (TIPS, TWEAKS)  # that hold generated pages and nothing else


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    tips, planned, tweaks = catalogue.tips(), catalogue.planned(), tweak_catalogue.tweaks()
    return {
        **{TIPS / f"{tip.id}.md": tip_pages.page(tip) for tip in tips},
        TIPS / "index.md": tip_pages.index(tips, planned),
        **{TWEAKS / f"{tweak.id}.md": tweak_pages.explained(tweak) for tweak in tweaks},
        TWEAKS / "index.md": index(tweaks),
        **reliability(),
        **schemas(),
    }


def reliability() -> dict[Path, str]:
    """The page on what can go wrong, where the tests that show it lie beside the documentation."""
    if not TESTS.is_dir():
        return {}
    sys.path.insert(0, str(DOCS.parent))  # a script finds what lies beside itself, and no more
    from tests.support import contract_page

    return {DOCS / "reliability.md": contract_page.page(TESTS)}


def schemas() -> dict[Path, str]:
    """The JSON Schema of every public document by its path."""
    notes = json.loads((DOCS / "schema_notes.json").read_text(encoding="utf-8"))
    return {
        DOCS / f"{name}.schema.json": json.dumps(schema(document, notes), indent=2, ensure_ascii=False) + "\n"
        for name, document in DOCUMENTS.items()
    }


def index(tweaks: Sequence[Tweak]) -> str:
    """All tweaks by what they do to the result, with links."""
    lines = [
        "# Tweaks",
        "",
        "What `perfdoctor try` can change inside the script's process, to measure it.",
        "",
    ]
    for result, about in tweak_catalogue.RESULTS.items():
        lines += [f"## {result.capitalize()}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| tweak | the change |", "|---|---|"]
        lines += [f"| {_flags(tweak)} | {tweak.title} |" for tweak in tweaks if tweak.result == result]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _flags(tweak: Tweak) -> str:
    """How a tweak is typed; a bar would end the cell."""
    takes = {tweak.flag: tweak.takes, **tweak.extras}
    typed = [flag if kind is None else f"{flag} {kind.metavar}" for flag, kind in takes.items()]
    own, *extras = (f"`{words}`".replace("|", "\\|") for words in typed)
    return " ".join([f"[{own}]({tweak.id}.md)", *extras])


def stale() -> list[Path]:
    """Pages that are missing, differ from their source, or have none any more."""
    wanted = pages()
    odd = [path for folder in FOLDERS for path in folder.glob("*.md") if path not in wanted]
    return odd + [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def write() -> None:
    """Write what is stale and remove what has no source."""
    for folder in FOLDERS:
        folder.mkdir(exist_ok=True)
    wanted = pages()
    for path in stale():
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


def main() -> None:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is stale")
    if not parser.parse_args().check:
        write()
    elif odd := stale():
        names = ", ".join(path.relative_to(DOCS).as_posix() for path in odd)
        sys.exit(f"not what the source says: {names}; write them with: python docs/pages.py")


if __name__ == "__main__":
    main()
