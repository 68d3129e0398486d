from __future__ import annotations

import pytest

from perfdoctor.model.launchers import counting, launcher_of


@pytest.mark.parametrize(
    ("command", "name", "options_at"),
    [
        ("torchrun --nproc-per-node 2 train.py", "torchrun", 1),
        ("/opt/env/bin/torchrun train.py", "torchrun", 1),
        ("uv run torchrun train.py", "torchrun", 3),
        ("python -m torch.distributed.run train.py", "torchrun", 3),
        ("python -m torch.distributed.launch train.py", "torchrun", 3),
        ("accelerate launch train.py", "accelerate", 2),
        ("srun torchrun train.py", "srun", 1),
    ],
)
def test_a_launcher_is_known_by_how_it_is_started(command: str, name: str, options_at: int) -> None:
    found = launcher_of(command.split())
    assert found is not None
    assert (found[0].name, found[1]) == (name, options_at)


@pytest.mark.parametrize("command", ["python train.py torchrun", "python -m torchrun_like", "accelerate env"])
def test_what_belongs_to_a_script_or_only_looks_like_one_is_no_launcher(command: str) -> None:
    assert launcher_of(command.split()) is None


def test_a_scheduler_in_front_is_passed_over_where_a_number_of_processes_is_to_be_given() -> None:
    found = launcher_of("srun torchrun train.py".split(), counting())
    assert found is not None
    assert found[0].name == "torchrun"
