from __future__ import annotations

import pytest

from perfdoctor.model import redact

SECRETS = [
    ["--api-key=CANARY"],
    ["--api_key", "CANARY"],
    ["--password", "CANARY"],
    ["--password", "-CANARY"],
    ["--password=a b;CANARY&c"],
    ["-password", "CANARY"],
    ["--hf-token", "CANARY"],
    ["--wandb-key", "CANARY"],
    ["--aws_secret_access_key=CANARY"],
    ["wandb.api_key=CANARY"],
    ["+trainer.logger.token=CANARY"],
    ["HF_TOKEN=CANARY"],
    ["https://user:CANARY@host/path"],
    ["https://CANARY@github.com/x"],
    ["postgres://user:CAN@ARY@host/db"],
    ["https://host/?a=1&token=CANARY&b=2"],
    ["-H", "Authorization: Bearer CANARY"],
    ['--config={"api_key": "CANARY", "lr": 0.1}'],
    ["bash", "-c", "WANDB_API_KEY=CANARY python train.py --password CANARY --hf_token='CANARY'"],
    ["hf_CANARYCANARYCANARYCANARY"],
    ["--id=ghp_CANARYCANARYCANARYCANARY"],
]
HARMLESS = [
    ["train.py", "--lr", "1e-3", "--batch-size=64", "-m", "pkg"],
    ["--tokenizer", "gpt2", "--max-tokens", "512", "--token-length=5"],
    ["--passes", "3", "--bypass=1", "--author", "me", "--compass=n"],
    ["--use-auth-token", "--epochs", "3"],
    ["data/pass/token/secret.txt"],
    ["https://host/path?a=1"],
    ["--sort-key", "loss", "--image-key=jpg"],
    ["bash", "-c", "OMP_NUM_THREADS=2 python train.py --lr 0.1"],
]


@pytest.mark.parametrize("words", SECRETS, ids=" ".join)
def test_a_secret_is_replaced(words: list[str]) -> None:
    kept = redact.command(words)
    assert "CAN" not in " ".join(kept)
    assert redact.REDACTED in " ".join(kept)
    assert len(kept) == len(words)


@pytest.mark.parametrize("words", HARMLESS, ids=" ".join)
def test_what_is_no_secret_stays(words: list[str]) -> None:
    assert redact.command(words) == words


def test_what_surrounds_a_secret_stays() -> None:
    assert redact.command(["train.py", "--api-key=x", "--lr", "0.1"]) == [
        "train.py",
        "--api-key=<redacted>",
        "--lr",
        "0.1",
    ]
    line = "TOKEN=x python train.py --lr 0.1"
    assert redact.command(["bash", "-c", line]) == ["bash", "-c", "TOKEN=<redacted> python train.py --lr 0.1"]


def test_of_the_environment_only_what_matters_for_speed_is_kept() -> None:
    environ = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "OMP_NUM_THREADS": "4",
        "NCCL_DEBUG": "INFO",
        "TOKENIZERS_PARALLELISM": "false",
        "NCCL_KEY": "CANARY",
        "TORCH_AUTH": "CANARY",
        "WANDB_API_KEY": "CANARY",
        "HOME": "/home/me",
        "MY_OMP_NUM_THREADS": "4",
        "TORCH_HOME": "https://user:CANARY@host/",
        "LD_PRELOAD": "x" * 5000,
    }
    kept = redact.environment(environ)
    assert set(kept) == {
        "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "NCCL_DEBUG", "TOKENIZERS_PARALLELISM", "TORCH_HOME", "LD_PRELOAD",
    }  # fmt: skip
    assert "CANARY" not in str(kept)
    assert len(kept["LD_PRELOAD"]) == redact.VALUE_CHARACTERS
