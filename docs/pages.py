"""Writes the generated pages under docs/: python docs/pages.py [--check].

With --check nothing is written, and the exit status is 1 where a page is not what the source says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perfdoctor import catalogue
from perfdoctor.render import tippage

TIPS = Path(__file__).parent / "tips"


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    tips, planned = catalogue.tips(), catalogue.planned()
    found = {TIPS / f"{tip.id}.md": tippage.page(tip) for tip in tips}
    return found | {TIPS / "index.md": tippage.index(tips, planned)}


def stale() -> list[Path]:
    """Pages that are missing, differ from their source, or have none any more."""
    wanted = pages()
    odd = [path for path in TIPS.glob("*.md") if path not in wanted]
    return odd + [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def write() -> None:
    """Write what is stale and remove what has no source."""
    TIPS.mkdir(exist_ok=True)
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
        names = ", ".join(path.name for path in odd)
        sys.exit(f"not what the source says: {names}; write them with: python docs/pages.py")


if __name__ == "__main__":
    main()
