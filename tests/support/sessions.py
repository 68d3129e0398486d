"""Stand-ins for what surrounds a part of the probe that is tested in this process."""

from __future__ import annotations

from _thread import get_ident
from types import SimpleNamespace
from typing import Any

from perfdoctor.wire.events import Event


class Session:
    """Keeps its events; its recorder belongs to the calling thread and has written rows."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.recorder = SimpleNamespace(off=False, written=1, owner=get_ident())

    def write(self, event: Event) -> None:
        self.events.append({"event": event.event, **event.fields()})

    def append(self, event: Event, file: str | None = None) -> None:
        self.write(event)

    def in_worker(self) -> bool:
        return False

    def recording(self) -> Any:
        return self.recorder
