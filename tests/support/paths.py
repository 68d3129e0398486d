"""Folders that tests read from."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "perfdoctor"
SAMPLES = ROOT / "sample_scripts"
TESTS = ROOT / "tests"
DATA = TESTS / "data"
LOOPS = TESTS / "loops"
SCRIPTS = TESTS / "scripts"
TRACES = ROOT.parent / "shared" / "traces"  # recorded by others; tests that need them skip where they are not
