from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.trials.settings.rank_count import command, counts
from perfdoctor.watch import command as commands

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with an interpreter and some programs."""
    for name in ("python", "train.sh"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return {"PATH": str(tmp_path / "bin"), "VIRTUAL_ENV": str(tmp_path)}


@pytest.mark.parametrize(
    ("words", "started"),
    [
        (("python", "train.py", "--lr", "1"), ("python", *TORCHRUN, "train.py", "--lr", "1")),
        (("python", "-u", "-X", "dev", "train.py"), ("python", "-u", "-X", "dev", *TORCHRUN, "train.py")),
        (("python", "-m", "pkg.train", "-x"), ("python", *TORCHRUN, "-m", "pkg.train", "-x")),
        (("torchrun", "train.py"), ("torchrun", "--nproc-per-node", "4", "train.py")),
        (
            ("torchrun", "--standalone", "--nproc_per_node=2", "train.py"),
            ("torchrun", "--nproc-per-node", "4", "--standalone", "train.py"),
        ),
        (
            ("torchrun", "--nproc-per-node", "2", "train.py", "--nproc-per-node", "9"),
            ("torchrun", "--nproc-per-node", "4", "train.py", "--nproc-per-node", "9"),
        ),
        (
            ("torchrun", "--nproc-per-node", "gpu", "--nnodes", "1", "-m", "pkg", "--nnodes", "3"),
            ("torchrun", "--nproc-per-node", "4", "--nnodes", "1", "-m", "pkg", "--nnodes", "3"),
        ),
        (
            ("uv", "run", "/opt/bin/torchrun", "train.py"),
            ("uv", "run", "/opt/bin/torchrun", "--nproc-per-node", "4", "train.py"),
        ),
        (
            ("python", "-m", "torch.distributed.run", "train.py"),
            ("python", "-m", "torch.distributed.run", "--nproc-per-node", "4", "train.py"),
        ),
        (
            ("accelerate", "launch", "--multi_gpu", "--num_processes", "8", "train.py"),
            ("accelerate", "launch", "--num_processes", "4", "--multi_gpu", "train.py"),
        ),
        (
            ("python", "-m", "accelerate.commands.launch", "train.py"),
            ("python", "-m", "accelerate.commands.launch", "--num_processes", "4", "train.py"),
        ),
        (
            ("deepspeed", "--num_gpus=2", "train.py", "--deepspeed"),
            ("deepspeed", "--num_gpus", "4", "train.py", "--deepspeed"),
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_command_is_started_with_so_many_ranks(
    environ: dict[str, str], words: tuple[str, ...], started: tuple[str, ...]
) -> None:
    assert command(words, 4, environ) == started


def test_a_script_gets_the_interpreter_that_it_would_get_alone(environ: dict[str, str]) -> None:
    alone = commands.resolve(("train.py",), environ).argv[0]
    assert command(("train.py",), 4, environ) == (alone, *TORCHRUN, "train.py")


def test_one_process_is_not_told_of_several_gpus(environ: dict[str, str]) -> None:
    words = ("accelerate", "launch", "--multi_gpu", "--mixed_precision", "bf16", "train.py")
    started = ("accelerate", "launch", "--num_processes", "1", "--mixed_precision", "bf16", "train.py")
    assert command(words, 1, environ) == started


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train.sh", "train.py"), "does not know how to give train.sh the number of ranks"),
        (("python", "-c", "pass"), "only a script or a module"),
        (("python", "-"), "only a script or a module"),
        (("torchrun", "--nnodes", "2", "train.py"), "--nnodes 2: ranks are scaled on one host"),
        (("torchrun", "--nnodes=1:4", "train.py"), "--nnodes 1:4: ranks are scaled on one host"),
        (("accelerate", "launch", "--num_machines", "2", "train.py"), "--num_machines 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_cannot_be_scaled_is_said(
    environ: dict[str, str], words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(PerfdoctorError, match=sentence) as caught:
        command(words, 2, environ)
    assert caught.value.hint


@pytest.mark.parametrize(("typed", "found"), [("1,2,4", (1, 2, 4)), (" 4, 1 ,4", (1, 4)), ("2,8", (2, 8))])
def test_numbers_are_sorted_and_distinct(typed: str, found: tuple[int, ...]) -> None:
    assert counts(typed) == found


@pytest.mark.parametrize("typed", ["", "0,1", "two", "1,", "1 2", "2", "1,1", "-1,2"])
def test_what_are_no_numbers_to_compare_is_said(typed: str) -> None:
    with pytest.raises(PerfdoctorError, match="--ranks") as caught:
        counts(typed)
    assert "perfdoctor try --ranks 1," in (caught.value.hint or "")
