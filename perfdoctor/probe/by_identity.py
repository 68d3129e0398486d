"""What is known of objects of the script's as long as they live."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Dict, Generic, Iterator, List, Optional, Tuple, TypeVar

Known = TypeVar("Known")


class ByIdentity(Generic[Known]):
    """A dictionary whose keys are objects themselves, which it keeps alive no longer.

    A `WeakKeyDictionary` takes objects that are equal for one, calls the script's code to compare them, and
    refuses those that cannot be hashed, as those of a class that says only when they are equal.
    """

    def __init__(self) -> None:
        self._held: Dict[int, Tuple[weakref.ref[Any], Known]] = {}

    def __setitem__(self, key: Any, known: Known) -> None:
        # Forgotten by a function written in C: Python answers signals before one of its own begins, and what
        # their handlers raise there is lost.
        self._held[id(key)] = weakref.ref(key, partial(self._held.pop, id(key))), known

    def get(self, key: Any) -> Optional[Known]:
        """What is known of an object, if anything is."""
        alive, known = self._held.get(id(key), (None, None))
        return known if alive is not None and alive() is key else None

    def __contains__(self, key: Any) -> bool:
        alive, _ = self._held.get(id(key), (None, None))
        return alive is not None and alive() is key

    def __getitem__(self, key: Any) -> Known:
        if key not in self:
            raise KeyError(id(key))
        return self._held[id(key)][1]

    def __iter__(self) -> Iterator[Any]:
        keys = [alive() for alive, _ in list(self._held.values())]
        return (key for key in keys if key is not None)

    def __len__(self) -> int:
        return len(self._held)

    def values(self) -> List[Known]:
        """What is known of each of them."""
        return [known for _, known in list(self._held.values())]
