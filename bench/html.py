"""What the HTML report of a long run costs: CPU seconds and memory of making it, and the size of the file.

    nice -n 19 python bench/html.py [--steps 100000] [--rounds 3]

The run is made by hand: one rank, steps of 14.5 ms, a sample of the host each second. "page" is what
`perfdoctor report` costs without HTML; "html" is all of `perfdoctor report --html`. Every figure is the
median over processes that do nothing else; the package is compiled to byte code, as an installed one is.
Where there is a chromium, it opens the file as well: "browser" is the time to the first paint, and of the
slowest of several zooms and moves of the cursor, until the frame that shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import browser as browsers  # noqa: E402
from tests.support.jobs import write_job  # noqa: E402

# From the event to the frame that shows what it did, in milliseconds.
TURN = """
    const done = arguments[arguments.length - 1];
    const plot = document.querySelector('.plot');
    const box = plot.getBoundingClientRect();
    const acts = [];
    for (let turn = 1; turn < 20; turn += 1) {
      const clientX = box.left + (box.width * turn) / 20;
      const move = {clientX, clientY: box.top + 9}, key = turn % 6 ? '+' : 'Escape';
      acts.push(['hover', () => plot.dispatchEvent(new PointerEvent('pointermove', move))]);
      acts.push(['zoom', () => plot.dispatchEvent(new KeyboardEvent('keydown', {key}))]);
    }
    const slowest = {hover: 0, zoom: 0};
    const next = () => {
      if (!acts.length) return done(slowest);
      const [name, act] = acts.shift();
      requestAnimationFrame(() => {
        const begin = performance.now();
        act();
        document.body.getBoundingClientRect();
        setTimeout(() => {
          slowest[name] = Math.max(slowest[name], performance.now() - begin);
          next();
        });
      });
    };
    next();
"""
STEP_S = 0.0145  # what `write_job` makes of a step of one rank, with its sync
MEASURE = """
import json, os, re, sys
from perfdoctor.cli import app
try:
    app.start(json.loads(sys.argv[1]))
except SystemExit:
    pass
spent = os.times()
peak = int(re.search("VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps({"cpu_s": spent.user + spent.system, "peak_bytes": peak}), file=sys.stderr)
"""


def main() -> None:
    """Print a line for the page and one for the HTML file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_job(folder, ranks=1, steps=given.steps)
        run, file = folder / "node0", folder / "report.html"
        add_samples(run, given.steps)
        for label, words in (("page", []), ("html", ["--html", str(file)])):
            measured(["report", str(run), *words])  # compiles what is not yet
            told = [measured(["report", str(run), *words]) for _ in range(given.rounds)]
            cpu_s, peak = (statistics.median(one[key] for one in told) for key in ("cpu_s", "peak_bytes"))
            size = f", {file.stat().st_size / 1e6:.2f} MB of HTML" if words else ""
            print(f"{label}  {given.steps:,} steps: {cpu_s:.2f} s CPU, {peak / 1e6:.0f} MB{size}")
        if why := browsers.missing():
            print(f"browser  not measured: {why}")
        else:
            looked_at(file, given.rounds)


def looked_at(file: Path, rounds: int) -> None:
    """Print what the file asks of a browser."""
    paints, turns = [], []
    for _ in range(rounds):
        with browsers.started() as browser:
            browser.look(1280)
            browser.open(file)
            browser.driver.set_script_timeout(60)
            turns.append(browser.driver.execute_async_script(TURN))
            paints.append(
                browser.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
    hover, zoom = (statistics.median(turn[name] for turn in turns) for name in ("hover", "zoom"))
    paint = statistics.median(paints)
    print(f"browser  first paint {paint:.0f} ms, slowest hover {hover:.0f} ms, slowest zoom {zoom:.0f} ms")


def add_samples(run: Path, steps: int) -> None:
    """A sample of the host for each second of the run."""
    began_ns = json.loads((run / "run.json").read_text())["begin_ns"]
    lines = []
    for second in range(round(steps * STEP_S)):
        proc = {"pid": 100_000, "role": "main", "cpu_s": 0.9 * second, "rss_bytes": 2_000_000_000}
        proc |= {"read_bytes": 5_000_000 * second, "written_bytes": 1_000 * (second // 60)}
        net = {"received_bytes": 1_000_000 * second, "sent_bytes": 0, "loopback_bytes": 0}
        entry = {"t_ns": began_ns + second * 10**9, "machine_busy_cores": 1.0 + second % 3, "usable_cores": 4}
        lines.append(json.dumps({**entry, "procs": [proc], "net": net}))
    (run / "host.jsonl").write_text("\n".join(lines) + "\n")


def measured(words: list[str]) -> dict[str, float]:
    """CPU seconds and peak memory of a process that runs these words."""
    command = [sys.executable, "-c", MEASURE, json.dumps(words)]
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=ROOT, env=compiled, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stderr.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
