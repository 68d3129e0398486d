"""What may be kept of a command line and an environment: no passwords, keys or tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

REDACTED = "<redacted>"
VALUE_CHARACTERS = 200  # of an environment value: enough for a device list or an allocator's settings

# A whole name, with or without a prefix: api-key, wandb.api_key, HF_TOKEN. Not `tokenizer`, nor `max-tokens`.
_SECRET_NAME = (
    r"(?:[\w.-]*[_.-])?(?:pass(?:word|wd|phrase|code)?|pwd|secrets?|token|credentials?|auth|authorization|bearer"
    r"|(?:api|access|private|secret|account|auth|license|licence|encryption|ssh|wandb|hf|openai|aws)[_.-]?key(?:[_.-]id)?)"
    r"(?:[_.-](?:value|string|key|id))?"
)
_NAME = re.compile(rf"[-+~]*{_SECRET_NAME}", re.IGNORECASE)
_WHOLE = re.compile(rf"([-+~]*{_SECRET_NAME}=).*", re.IGNORECASE | re.DOTALL)
_ASSIGNED = re.compile(rf"(?<!\w)([-+~]*{_SECRET_NAME}[\"']?\s*[=:]\s*[\"']?)[^\s\"'&;,}}]+", re.IGNORECASE)
_OPTION = re.compile(rf"(?<![\w-])(--?{_SECRET_NAME}\s+[\"']?)(?!--)[^\s\"']+", re.IGNORECASE)
_BEARER = re.compile(r"\b((?:bearer|basic)\s+)\S+", re.IGNORECASE)
_URL_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s]+@", re.IGNORECASE)
_KNOWN_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)

_KEPT_NAMES = re.compile(
    r"(CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|(HIP|ROCR)_VISIBLE_DEVICES"
    r"|(OMP|MKL|KMP|OPENBLAS|NUMEXPR|GOMP|NCCL|GLOO|TORCH|PYTORCH|TORCHINDUCTOR|TORCHDYNAMO|CUBLAS|CUDNN|NVIDIA_TF32)_\w+"
    r"|MALLOC_\w+|LD_PRELOAD|(LOCAL_)?(WORLD_SIZE|RANK)|SLURM_(JOB_ID|NTASKS|CPUS_PER_TASK|NNODES)"
    r"|PYTHON(OPTIMIZE|HASHSEED|MALLOC|UNBUFFERED|DEVMODE|GIL|FAULTHANDLER)|TOKENIZERS_PARALLELISM)"
)
_SECRET_PART = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def command(words: Sequence[str]) -> list[str]:
    """The words of a command line with every value that looks like a secret replaced."""
    kept: list[str] = []
    before = ""
    for word in words:
        if before.startswith("-") and _NAME.fullmatch(before) and not word.startswith("--"):
            kept.append(REDACTED)
        elif before != "-c" and (whole := _WHOLE.fullmatch(word)):  # after -c, a word is a command line
            kept.append(whole[1] + REDACTED)
        else:
            kept.append(text(word))
        before = word
    return kept


def text(value: str) -> str:
    """One string with every secret in it replaced."""
    value = _URL_USER.sub(rf"\1{REDACTED}@", value)
    value = _BEARER.sub(rf"\1{REDACTED}", value)
    value = _ASSIGNED.sub(rf"\1{REDACTED}", value)
    value = _OPTION.sub(rf"\1{REDACTED}", value)
    return _KNOWN_SHAPES.sub(REDACTED, value)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter for speed; everything else stays unread."""
    names = sorted(name for name in environ if _KEPT_NAMES.fullmatch(name))
    allowed = (name for name in names if name == "TOKENIZERS_PARALLELISM" or not _SECRET_PART.search(name))
    return {name: text(environ[name])[:VALUE_CHARACTERS] for name in allowed}
