"""How many items datasets hold, without asking one of the script's: it may count how often, or fail.

torch's samplers ask what they draw from, and what they are told is remembered. Other classes of datasets, and
lists, are asked.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from .. import patch
from ..by_identity import ByIdentity
from ..containers import is_sequence, length_of
from ..looks.op_recording import unseen
from ..user_frames import is_users

NAME = "dataset_sizes"


class DatasetSizes:
    """The datasets of one process."""

    def __init__(self) -> None:
        self.told: ByIdentity[int] = ByIdentity()
        self.of = unseen(self._of)

    def install(self, data: Any) -> None:
        """Hear what torch's samplers are told."""
        for module in (data.sampler, data.distributed):
            vars(module).setdefault("len", len)  # the builtin, which it has under no name of its own
            patch.replace(module, "len", self._heard)

    def _heard(self, original: Callable[[Any], int]) -> Callable[[Any], int]:
        note = patch.part(NAME, self._note)

        def length(value: Any) -> int:
            try:
                size = original(value)
                note(value, size)
                return size
            except BaseException as error:
                patch.cut(error)
                raise

        return patch.finished(length, original, "len")

    def _note(self, value: Any, size: int) -> None:
        if type(value).__weakrefoffset__:
            self.told[value] = size

    def _of(self, dataset: Any) -> Optional[int]:
        """How many items a map-style dataset holds; None where nobody knows."""
        kind = type(dataset)
        if is_sequence(dataset):
            return length_of(dataset)
        size = self.told.get(dataset)
        if size is not None:
            return size
        asked = getattr(kind, "__len__", None)
        if asked is None or not hasattr(kind, "__getitem__") or _is_scripts(asked):
            return None
        try:
            return len(dataset)
        except (TypeError, NotImplementedError, AttributeError):
            return None


def _is_scripts(function: Any) -> bool:
    """Whether a function is the script's own."""
    code = getattr(function, "__code__", None)
    return code is not None and is_users(code.co_filename)
