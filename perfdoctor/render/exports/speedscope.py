"""The JSON of speedscope: a profile of each thread, its stacks weighted in seconds."""

from __future__ import annotations

import json

from perfdoctor.model.recorded import Recorded, RecordedStack
from perfdoctor.render import text

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(record: Recorded) -> str:
    """The whole file. Where it is not known how often samples were taken, weights are counts of them."""
    threads: dict[str, list[RecordedStack]] = {}
    for stack in record.stacks:
        threads.setdefault(stack.thread, []).append(stack)
    places: dict[str, int] = {}
    profiles = [
        _profile(text.escape_control(thread), stacks, record.sample_s, places)
        for thread, stacks in sorted(threads.items(), key=lambda item: (item[0] != "main", item[0]))
    ]
    frames = [{"name": text.escape_control(name)} for name in places]
    return json.dumps(
        {
            "$schema": SCHEMA,
            "name": text.escape_control(record.name),
            "exporter": "perfdoctor",
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        }
    )


def _profile(
    name: str, stacks: list[RecordedStack], sample_s: float | None, places: dict[str, int]
) -> dict[str, object]:
    """A profile of one thread; frames that are new get the next place in `places`."""
    weights = [stack.samples * (sample_s or 1) for stack in stacks]
    return {
        "type": "sampled",
        "name": name,
        "unit": "seconds" if sample_s else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [
            [places.setdefault(frame, len(places)) for frame in (stack.phase, *stack.frames)]
            for stack in stacks
        ],
        "weights": weights,
    }
