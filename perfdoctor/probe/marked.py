"""The one function of a file that a decorator has marked."""

from __future__ import annotations

from typing import Any, Callable, List


def the_one(module: Any, mark: str, decorator: str) -> Callable[..., Any]:
    """The function of `module` that carries `mark`. Raises TypeError where there are others than one."""
    functions: List[Callable[..., Any]] = [
        value
        for value in vars(module).values()
        if hasattr(value, mark) and value.__module__ == module.__name__
    ]
    if len(functions) != 1:
        raise TypeError(
            f"{module.__name__} needs exactly one function marked with {decorator}, found {len(functions)}"
        )
    return functions[0]
