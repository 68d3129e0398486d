"""Long names made short enough to read: kernels without the noise of their templates."""

from __future__ import annotations

import re

NOISE = re.compile(r"\(anonymous namespace\)::|\b(?:at|c10|std|native|thrust|cutlass|detail)::")
LAMBDA = re.compile(r"\{lambda\([^{}]*\)#\d+\}")
RETURNS = re.compile(r"^(?:static )?(?:void|bool|int|float|double) ")
CLONE = re.compile(r" \[clone [^\]]*\]$")
MANGLED = re.compile(r"^_Z\w+")


def kernel(name: str) -> str:
    """A kernel's name without return type, arguments and common namespaces."""
    if MANGLED.match(name):
        return name
    name = LAMBDA.sub("lambda", RETURNS.sub("", CLONE.sub("", name)))
    return NOISE.sub("", _without_arguments(name)).strip() or name


def _without_arguments(name: str) -> str:
    """`f<int>(float*, int)` without its last brackets; "Memcpy HtoD (Pinned -> Device)" stays."""
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if not depth:
            return name if place == 0 or name[place - 1] == " " else name[:place]
    return name
