"""Whether torch compiles, asked by every wrapper before anything else; and what it is not to compile."""

from __future__ import annotations

import types
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


def hide_from_compiler(code: types.CodeType) -> None:
    """Keep torch.compile from compiling `code` as a frame of its own; where it is inlined, it stays so.

    After a graph break the compiler looks at every Python frame that runs, ours included: without this a
    compiled training step has more frames and breaks watched than bare, and its backward passes unseen.
    """
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            hide_from_compiler(const)
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "set_code_exec_strategy"):
        actions = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(actions.SKIP, actions.DEFAULT)
        eval_frame.set_code_exec_strategy(code, strategy)
    else:  # torch before 2.6
        vars(eval_frame)["skip_code"](code)


def hide_module(module: types.ModuleType) -> None:
    """Hide every function and method that `module` defines from the compiler."""
    for value in list(vars(module).values()):
        is_ours = isinstance(value, type) and value.__module__ == module.__name__
        for member in vars(value).values() if is_ours else (value,):
            function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            if isinstance(function, types.FunctionType) and function.__code__.co_filename == module.__file__:
                hide_from_compiler(function.__code__)
