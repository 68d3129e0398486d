"""Full caches of functions: how often `functools.lru_cache` had a result, and how often it had to make it.

The caches themselves count. They are found in the user's modules and in the classes there, and nothing of
them is replaced.
"""

from __future__ import annotations

import functools
import os
import sys
from types import FunctionType, ModuleType
from typing import Any, Dict, Iterator

from ...wire.events.function_caches import FunctionCacheEvent
from ..observer import Watch, observer
from ..user_frames import is_users
from ..wrapping import Args, Kwargs

NAME = "function_caches"
KIND = type(functools.lru_cache()(lambda: None))
FIRST = 16  # batches of a process, before its caches are looked at; then at twice as many
CACHES_MAX = 64  # told of; a script has a few


class FunctionCaches:
    """The caches of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.modules = 0  # that were loaded when caches were last searched
        self.caches: Dict[int, Any] = {}
        self.told: Dict[int, int] = {}  # calls, when a cache was last written of
        self.due = FIRST

    def next(self) -> int:
        """The number of the batch before which the caches are looked at again."""
        return self.due

    def before_fetch(self, args: Args, kwargs: Kwargs) -> None:
        """A batch is about to be prepared, in whatever process."""
        count = self.watch.steps.fetches.count
        if count >= self.due:
            self.due = 2 * count
            self.look()

    def after_fetch(self, token: None, args: Args, result: Any) -> None:
        """Nothing is left to do."""

    def look(self) -> None:
        """Write down the full caches that were called twice as often as when that was last done."""
        if len(sys.modules) != self.modules:
            self.modules = len(sys.modules)
            self.caches = {id(cache): cache for cache in _found()}
        session = self.watch.session
        for key, cache in self.caches.items():
            hits, misses, maxsize, held = cache.cache_info()
            calls = hits + misses
            if (
                not maxsize
                or held < maxsize
                or calls < 2 * self.told.get(key, 1)
                or len(self.told) > CACHES_MAX
            ):
                continue
            self.told[key] = calls
            event = FunctionCacheEvent(at=_line(cache), maxsize=maxsize, hits=hits, misses=misses)
            (session.append if session.in_worker() else session.write)(event)


def _found() -> Iterator[Any]:
    """The caches in the user's modules."""
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if type(module) is ModuleType else None
        if not isinstance(file, str) or not is_users(file):
            continue
        for value in list(vars(module).values()):
            holders = [value, *vars(value).values()] if type(value) is type else [value]
            yield from (held for held in holders if type(held) is KIND and _line(held) is not None)


def _line(cache: Any) -> Any:
    """Where the function of a cache is defined, decorators included; None where that is not the user's."""
    function = cache.__wrapped__
    if type(function) is not FunctionType or not is_users(function.__code__.co_filename):
        return None
    code = function.__code__
    return {"file": os.path.abspath(code.co_filename), "line": code.co_firstlineno, "function": code.co_name}


@observer
def function_caches(watch: Watch) -> None:
    """Look at the caches each second, and in workers now and then between batches."""
    caches = FunctionCaches(watch)
    watch.on_fetch(NAME, caches.before_fetch, caches.after_fetch, caches.next)
    watch.each_second(NAME, caches.look)
