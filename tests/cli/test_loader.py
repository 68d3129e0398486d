from __future__ import annotations

import json
import textwrap

import jsonschema
import pytest

from perfdoctor.cli.loader import _place
from tests.support.paths import DOCS

pytestmark = pytest.mark.process

pytest.importorskip("torch")

SCHEMA = json.loads((DOCS / "loader.schema.json").read_text())

SCRIPT = """\
    import time, torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset
    class Items(Dataset):
        def __len__(self): return 4000
        def __getitem__(self, i):
            time.sleep(0.001)
            return torch.full((64,), float(i)), i % 2
    class Stream(IterableDataset):
        def __iter__(self):
            return (torch.full((64,), float(i)) for i in range(500))
    class Bad(Items):
        def __getitem__(self, i):
            raise ValueError(f"no such image")
    def train(loader):
        model = torch.nn.Linear(64, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in loader:
            x = batch[0] if isinstance(batch, list) else batch
            model(x).sum().backward()
            optimizer.step()
        torch.save(model, "model.pt")
        print("trained")
"""
LINES = len(SCRIPT.splitlines())


@pytest.fixture
def measured(folder, perfdoctor):
    """What `perfdoctor loader` shows for a script that ends with these lines."""

    def measure(lines: str, *options: str):
        (folder / "train.py").write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(lines))
        return perfdoctor("loader", "--seconds", "2", *options, "train.py")

    return measure


def test_json_obeys_the_schema_and_the_script_does_not_train(folder, measured):
    shown = measured(
        """\
        with torch.no_grad():
            for batch in DataLoader(Items(), batch_size=4): break
        print("begun")
        train(DataLoader(Items(), batch_size=8, shuffle=True))
        """,
        "--json",
        "--workers",
        "0,2",
    )
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [setting["workers"] for setting in document["settings"]] == [0, 2]
    assert all(setting[kind] for setting in document["settings"] for kind in ("warm", "cold", "synthetic"))
    assert (document["loader"]["batch_size"], document["loader"]["at"]["line"]) == (8, LINES + 4)
    assert document["knee"] == 2
    assert document["batch"]["samples"] == 8
    assert document["settings"][1]["worker_bytes"] > 0
    assert "begun" in shown.stderr
    assert "trained" not in shown.stderr
    assert not (folder / "model.pt").exists()
    assert (folder / ".perfdoctor" / "loaders").is_dir()
    assert not (folder / ".perfdoctor" / "runs").exists()


@pytest.mark.slow
def test_the_page_names_the_line_to_change(measured):
    shown = measured("train(DataLoader(Items(), batch_size=8))", "--workers", "2")
    assert shown.returncode == 0, shown.stderr
    assert "2 workers would load" in shown.stdout
    assert f"train.py:{LINES + 1}  train(DataLoader(Items(), batch_size=8))" in shown.stdout
    assert "num_workers=2, prefetch_factor=2" in shown.stdout
    assert "This measures loading alone." in shown.stdout


@pytest.mark.slow
def test_workers_that_repeat_an_iterable_dataset_are_not_advised(measured):
    shown = measured("train(DataLoader(Stream(), batch_size=8))", "--workers", "2", "--json")
    document = json.loads(shown.stdout)
    assert document["knee"] <= 1
    assert any("share itself out" in note for note in document["notes"])


def test_a_dataset_that_raises_is_one_sentence_with_its_line(measured):
    shown = measured("train(DataLoader(Bad(), batch_size=8))", "--workers", "1")
    assert shown.returncode == 2
    assert "with 0, 1 workers: ValueError: no such image (train.py:" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_script_that_trains_without_a_loader_is_ended_and_told(measured):
    shown = measured("train([torch.ones(8, 64)] * 100_000)")
    assert shown.returncode == 2
    assert "trains without a DataLoader" in shown.stderr
    assert "trained" not in shown.stderr


def test_a_script_that_never_iterates_its_loader_is_told(measured):
    shown = measured("DataLoader(Items())")
    assert shown.returncode == 2
    assert "never iterated a torch DataLoader" in shown.stderr


def test_a_script_that_fails_first_keeps_its_words(measured):
    shown = measured("1 / 0")
    assert shown.returncode == 2
    assert "ZeroDivisionError" in shown.stderr
    assert "ended with status 1 before its loader could be measured" in shown.stderr


@pytest.mark.slow
def test_another_loader_can_be_asked_for(measured):
    lines = "small = DataLoader(Items(), batch_size=4)\ntrain(DataLoader(Items(), batch_size=8))"
    document = json.loads(measured(lines, "--json", "--workers", "0", "--at", f"train.py:{LINES + 1}").stdout)
    assert document["loader"]["batch_size"] == 4


@pytest.mark.parametrize(
    ("typed", "at"),
    [
        ("train.py:4", "train.py:4"),
        ("pkg//train.py:4", "pkg/train.py:4"),
        ("./train.py:4", "{here}/train.py:4"),
        ("../pkg/train.py:4", "{above}/pkg/train.py:4"),
    ],
)
def test_a_line_can_be_named_as_a_shell_completes_its_file(tmp_path, monkeypatch, typed, at):
    monkeypatch.chdir(tmp_path)
    assert _place(typed) == at.format(here=tmp_path, above=tmp_path.parent)


@pytest.mark.parametrize(
    "words",
    [
        ("--workers", "many"),
        ("--at", "train.py"),
        ("--seconds", "0"),
        ("--seconds", "inf"),
        ("--number", "2", "--at", "train.py:41"),
    ],
)
def test_options_that_mean_nothing_are_refused(perfdoctor, words):
    shown = perfdoctor("loader", *words, "train.py")
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr


def test_a_script_that_is_not_there_has_its_interpreters_status(perfdoctor):
    shown = perfdoctor("loader", "nowhere.py")
    assert shown.returncode == 2
    assert "nowhere.py" in shown.stderr
