from __future__ import annotations


def test_every_tip_is_listed_with_its_class_and_title(perfdoctor):
    shown = perfdoctor("tips")
    assert shown.returncode == 0
    assert "too-few-workers" in shown.stdout
    assert {line.split()[1] for line in shown.stdout.splitlines()} <= {
        "data",
        "transfer",
        "compute",
        "network",
        "host",
    }


def test_one_tip_is_explained(perfdoctor):
    shown = perfdoctor("tips", "too-few-workers")
    assert "## What it sees" in shown.stdout


def test_an_unknown_tip_is_said(perfdoctor):
    shown = perfdoctor("tips", "buy-a-bigger-machine")
    assert shown.returncode == 2
    assert "perfdoctor tips" in shown.stderr
