from __future__ import annotations

import pytest

pytestmark = pytest.mark.process


def test_every_tip_is_listed_with_its_title_under_its_class(perfdoctor):
    shown = perfdoctor("tips")
    assert shown.returncode == 0
    classes = [
        line.split(":")[0] for line in shown.stdout.splitlines() if not line.startswith(" ") and ":" in line
    ]
    assert classes[:5] == ["data", "network", "transfer", "compute", "host"]
    assert "  too-few-workers" in shown.stdout
    assert "Prepare batches in more worker" in shown.stdout


def test_a_planned_tip_says_what_is_missing(perfdoctor):
    shown = perfdoctor("tips", "upload-on-the-link")
    assert shown.returncode == 0
    assert "planned, not there yet" in shown.stdout


def test_one_tip_is_explained(perfdoctor):
    shown = perfdoctor("tips", "too_few_workers")
    assert "## What it sees" in shown.stdout


def test_an_unknown_tip_is_said(perfdoctor):
    shown = perfdoctor("tips", "buy-a-bigger-machine")
    assert shown.returncode == 2
    assert "perfdoctor tips" in shown.stderr


def test_a_name_that_is_nearly_right_is_suggested(perfdoctor):
    shown = perfdoctor("tips", "too-few-worker")
    assert shown.returncode == 2
    assert "perfdoctor tips too-few-workers" in shown.stderr
