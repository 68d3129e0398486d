from __future__ import annotations

from typing import Any, Callable


class Registry:
    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Callable] = {}

    def register(self, name: str):
        def add(entry: Callable) -> Callable:
            if name in self._entries:
                raise KeyError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def build(self, spec: dict[str, Any], **extra):
        spec = dict(spec)
        name = spec.pop("name")
        if name not in self._entries:
            raise KeyError(f"unknown {self.kind} {name!r}; known: {sorted(self._entries)}")
        return self._entries[name](**spec, **extra)


DATASETS = Registry("dataset")
MODELS = Registry("model")
LOSSES = Registry("loss")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("schedule")
