"""Makes the pictures under docs/pictures/ from a real run: python docs/pictures.py [SCRIPT].

Needs chromium, chromedriver and selenium; takes as long as the script trains, and half a minute.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from perfdoctor import reporting  # noqa: E402
from perfdoctor.render import terminal  # noqa: E402
from perfdoctor.render.pages import report as report_page  # noqa: E402
from tests.support import browser as browsers  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SCRIPT = ROOT / "sample_scripts" / "too_few_workers.py"
PERFDOCTOR = [sys.executable, "-m", "perfdoctor"]
COLUMNS = 96
WIDTH, SCREEN = 1280, 900  # pixels of a window
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 12px 20px; background: #fff; width: max-content; }}
pre {{ margin: 0; font: 15px/1.35 "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>"""


def watched(script: Path, folder: Path) -> Path:
    """A run of a copy of the script; its run directory."""
    shutil.copy(script, folder)
    subprocess.run([*PERFDOCTOR, "run", "-q", script.name], cwd=folder, check=True)
    return next(path.parent for path in folder.rglob("run.json"))


def as_html(drawn: str) -> str:
    """What a terminal shows, with its colours."""
    console = Console(file=io.StringIO(), width=COLUMNS, record=True, force_terminal=True)
    console.print(Text.from_ansi(drawn), highlight=False)
    return console.export_html(code_format=TERMINAL, inline_styles=True)


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", nargs="?", type=Path, default=SCRIPT, help="what is watched")
    given = parser.parse_args()
    if why := browsers.missing():
        sys.exit(why)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browsers.started() as browser:
        run = watched(given.script, Path(folder))
        page = terminal.draw(report_page.page(reporting.judge(run)), COLUMNS, colour=True)
        shown = Path(folder) / "terminal.html"
        shown.write_text(as_html(page), encoding="utf-8")
        browser.look(WIDTH)
        browser.open(shown)
        size = browser.run("return [document.body.offsetWidth, document.body.offsetHeight]")
        browser.look(size[0], size[1])
        (PICTURES / "terminal.png").write_bytes(browser.picture(height=size[1]))
        file = Path(folder) / "report.html"
        subprocess.run([*PERFDOCTOR, "report", "--html", str(file), str(run)], cwd=folder, check=True)
        browser.look(WIDTH, SCREEN)
        browser.open(file)
        (PICTURES / "html.png").write_bytes(browser.picture(height=SCREEN))


if __name__ == "__main__":
    main()
