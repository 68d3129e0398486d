from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.frames import Owner, parse
from perfdoctor.model.measured import Phase


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/me/train.py", Owner.USER),
        ("train.py", Owner.USER),
        ("/home/me/src/mylib/data.py", Owner.USER),
        ("/home/me/.venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", Owner.TORCH),
        ("/usr/lib/python3/dist-packages/PIL/Image.py", Owner.LIBRARY),
        ("/home/me/.venv/lib/python3.11/site-packages/lightning/fit.py", Owner.LIBRARY),
        ("/root/.pyenv/versions/3.11.7/lib/python3.11/json/encoder.py", Owner.LIBRARY),
        ("/usr/lib64/python3.9/random.py", Owner.LIBRARY),
        ("<frozen importlib._bootstrap>", Owner.LIBRARY),
        ("/home/me/.venv/lib/python3.11/site-packages/perfdoctor/probe/steps.py", Owner.PROBE),
        ("/opt/perfdoctor/wire/files.py", Owner.PROBE),
        ("/home/me/probe/steps.py", Owner.USER),
    ],
)
def test_a_frame_belongs_to_whose_file_it_is(file, owner):
    frame = parse(f"work ({file}:12)")
    assert frame is not None
    assert (frame.owner, frame.line) == (owner, 12)


def test_a_wrapper_of_the_probe_tells_the_phase_and_a_users_namesake_does_not():
    assert parse("data_wait (/x/perfdoctor/probe/loader.py:3)").phase is Phase.DATA_WAIT
    assert parse("backward (/home/me/train.py:3)").phase is None


def test_the_optimizer_is_told_by_torchs_own_wrapper():
    folder = "/v/lib/python3.11/site-packages/torch/optim"
    assert (
        parse(f"Optimizer.profile_hook_step.<locals>.wrapper ({folder}/optimizer.py:5)").phase
        is Phase.OPTIMIZER
    )
    assert parse(f"wrapper ({folder}/lr_scheduler.py:5)").phase is None


@pytest.mark.parametrize(
    ("written", "name"),
    [("Trainer.fit", "fit"), ("main.<locals>.step", "step"), ("<listcomp>", "<listcomp>")],
)
def test_a_functions_own_name_leaves_its_class_out(written, name):
    assert parse(f"{written} (train.py:1)").name == name


def test_a_frame_without_a_line_and_one_that_is_none():
    assert parse("work (train.py)").line == 0
    assert parse("garbage") is None


def test_what_the_probe_does_to_profile_is_told_from_its_wrappers():
    assert parse("open (/x/perfdoctor/probe/profiler/windows.py:3)").profiles
    assert not parse("data_wait (/x/perfdoctor/probe/patch.py:3)").profiles


def test_pythons_own_library_is_told_from_installed_packages():
    assert parse("sort (/usr/lib/python3.11/heapq.py:3)").is_standard
    assert not parse("sort (/venv/lib/python3.11/site-packages/numpy/core.py:3)").is_standard
    assert not parse("sort (/home/me/train.py:3)").is_standard


def test_a_line_of_more_digits_than_any_file_has_is_none():
    assert parse(f"work (train.py:{'9' * 5000})").line == 0
