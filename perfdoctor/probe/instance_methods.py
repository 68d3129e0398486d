"""Methods that are watched where an instance is asked for them, and are themselves where the class is.

Scripts look methods up on `torch.Tensor` to compare them with what `__torch_function__` is given; torch does
the same to hand them in.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, Callable

from . import patch

Method = Callable[..., Any]


class InstanceMethod:
    """The original of the class, and a watched one for its instances."""

    def __init__(self, original: Method, watched: Method) -> None:
        self.original = original
        self.watched = watched

    def __get__(self, instance: Any, owner: Any = None) -> Method:
        return self.original if instance is None else MethodType(self.watched, instance)


def replace_for_instances(owner: Any, attribute: str, build: Callable[[Method], Method]) -> None:
    """Replace a method by what `build` makes of it, around what was made before: see patch.replace."""

    def built(original: Method) -> Any:
        known = vars(owner).get(attribute)
        return InstanceMethod(original, build(known.watched if type(known) is InstanceMethod else original))

    patch.replace(owner, attribute, built)
