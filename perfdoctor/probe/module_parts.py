"""The parts of a module as torch tells them: a script may have methods of these names of its own."""

from __future__ import annotations

import sys
from typing import Any, Iterator, Optional

PIECE = 1_024  # elements of a gradient that are looked at


def parameters_of(module: Any) -> Iterator[Any]:
    """Each parameter of a module and of those inside it."""
    return sys.modules["torch"].nn.Module.parameters(module)  # type: ignore[no-any-return]


def buffers_of(module: Any) -> Iterator[Any]:
    """Each tensor of a module, and of those inside it, that is part of its state and not trained."""
    return sys.modules["torch"].nn.Module.buffers(module)  # type: ignore[no-any-return]


def modules_of(module: Any) -> Iterator[Any]:
    """The module and each one inside it."""
    return sys.modules["torch"].nn.Module.modules(module)  # type: ignore[no-any-return]


def gradient_of(parameter: Any) -> Optional[Any]:
    """The gradient of what an optimizer has: torch warns where it is asked of what gets none."""
    return parameter.grad if parameter.is_leaf or parameter.retains_grad else None


def is_zero(gradient: Any) -> bool:
    """Whether the gradient holds nothing; a device's is not read, since that would wait for it."""
    if not gradient.is_cpu or gradient.is_sparse:
        return False
    return not bool(gradient.detach().reshape(-1)[:PIECE].any())
