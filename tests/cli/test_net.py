from __future__ import annotations

import json
import sys

import jsonschema
import pytest

from tests.support.paths import DOCS

pytestmark = pytest.mark.process

pytest.importorskip("torch")

SCHEMA = json.loads((DOCS / "net.schema.json").read_text())


def test_two_ranks_exchange_on_this_host_and_json_obeys_the_schema(folder, perfdoctor) -> None:
    shown = perfdoctor("net", "--seconds", "1", "--ranks", "2", "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["ranks"] == 2
    assert len(set(document["hosts"])) == 1
    assert len(document["sizes"]) >= 3
    assert (folder / ".perfdoctor" / "nets").is_dir()


def test_the_users_launcher_starts_the_ranks_and_the_page_is_shown(perfdoctor) -> None:
    words = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")
    shown = perfdoctor("net", "--seconds", "1", "--", *words)
    assert shown.returncode == 0, shown.stderr
    assert "perfdoctor net  3 ranks on " in shown.stdout
    assert "an all-reduce of" in shown.stdout


def test_a_launcher_that_fails_is_told(perfdoctor) -> None:
    shown = perfdoctor("net", "--", sys.executable, "-c", "raise KeyError('x')")
    assert shown.returncode == 1
    assert shown.stderr.startswith("perfdoctor: the ranks failed: KeyError: 'x'")
    assert "printed.log" in shown.stderr


@pytest.mark.parametrize("words", [("--ranks", "1"), ("--seconds", "0"), ("--nothing",)])
def test_options_that_mean_nothing_are_refused(perfdoctor, words) -> None:
    shown = perfdoctor("net", *words)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr


def test_help_says_how_hosts_are_measured(perfdoctor) -> None:
    shown = perfdoctor("net", "--help")
    assert shown.returncode == 0
    assert "perfdoctor net -- torchrun --nnodes 2" in " ".join(shown.stdout.split())
