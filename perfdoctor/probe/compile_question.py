"""Whether torch compiles, asked by every wrapper before anything else."""

from __future__ import annotations

from typing import Any, Callable, Tuple


class _NeverCompiling:
    """Stands for `torch.compiler` where that has no flag beside its functions."""

    _is_compiling_flag = False


def compile_question() -> Tuple[Callable[[], bool], Any]:
    """`tracing, compiler`, to ask `tracing() or compiler._is_compiling_flag`: half of `is_compiling()`.

    While it traces, the compiler itself answers the first with True and never reads the second, which would
    become a guard. The second is True as well in code that runs while torch compiles or exports. torch's own
    function asks a third thing, whether TorchScript compiles it, and takes twice as many instructions.
    """
    from torch import compiler

    if hasattr(compiler, "_is_compiling_flag"):
        return compiler.is_dynamo_compiling, compiler
    return compiler.is_compiling, _NeverCompiling
