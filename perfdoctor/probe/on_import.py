"""Act on a module when the script imports it, without ever importing it first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .inject.sitecustomize import ImportWatcher

_watcher = ImportWatcher()


def on_import(name: str, callback: Callable[[Any], object]) -> None:
    """Call `callback(module)`: now where `name` is imported already, else right after its own code has run.

    The callback runs inside the script's import statement: hand in a guarded one.
    """
    module = sys.modules.get(name)
    if module is None:
        _watcher.add(name, callback)
    else:
        callback(module)
