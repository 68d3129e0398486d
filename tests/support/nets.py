"""Measured links made up for tests: one line each, what differs said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfdoctor.model.link import SCHEMA, AllReduce, Net, Nic
from perfdoctor.watch.machine.link import FILE, MEASURED

SIZES = tuple(4**power for power in range(1, 14))
GIGABIT = 1e9 / 8


def exchanges(latency_s: float, bytes_per_s: float, sizes: tuple[int, ...] = SIZES) -> tuple[AllReduce, ...]:
    """All-reduces that follow the line exactly."""
    times = [(size, latency_s + size / bytes_per_s) for size in sizes]
    return tuple(AllReduce(size, took_s, 0.9 * took_s, 1.2 * took_s, 50) for size, took_s in times)


LOCAL = Net(
    "/home/ada/digits/.perfdoctor/nets/20260102-030405-net",
    ("/usr/bin/python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    "gloo",
    "cpu",
    "2.13.0",
    ("node0", "node0"),
    exchanges(1e-4, 1e9),
)
REMOTE = replace(LOCAL, hosts=("node0", "node0", "node1", "node1"), nic=Nic("eth0", 10 * GIGABIT))


def kept(folder: Path, *lines: dict[str, Any], **facts: Any) -> Path:
    """The files of a measurement between two ranks of `node0`, with these lines behind the first."""
    begin = {"event": "begin", "ranks": 2, "hosts": ["node0", "node0"], "backend": "gloo", "device": "cpu"}
    folder.mkdir(parents=True)
    told = [begin | {"torch": "2.13.0"}, *lines]
    (folder / MEASURED).write_text("".join(json.dumps(line) + "\n" for line in told))
    document = {"schema": SCHEMA, "command": ["torchrun"], "ended": None, "nic": None} | facts
    (folder / FILE).write_text(json.dumps(document))
    return folder


def size(number: int, seconds: float) -> dict[str, Any]:
    """The line of a size."""
    times = {"seconds": seconds, "low_s": seconds, "high_s": seconds}
    return {"event": "size", "bytes": number, "repetitions": 9, **times}
