"""A slow link, and hosts with names, on one machine: words to put before a command.

Behind `words`, a command runs in a network namespace of its own. Nothing exists there but a loopback device, and the
kernel's token bucket lets only so many bits a second through it. Both directions share the device, so what two
processes exchange takes as long as over a line that carries one direction at a time. Delays are not
emulated: a token bucket is in every kernel that shapes traffic, `netem` is not.

Where a namespace is not permitted, processes can have the kernel pace their own connections:
sample_scripts/exposed_communication_slow_link.py does, and needs no rights for it.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

# A packet over loopback is as large as its MTU, 64 KiB: what exceeds the burst is dropped, and sent again for ever.
BURST = "256kb"
WAITS = "1s"  # in the queue before it is dropped; TCP keeps queues on its own machine far shorter
SETUP = 'ip link set lo up && tc qdisc add dev lo root tbf rate "$0" burst "$1" latency "$2" && shift 2 && exec "$@"'
TIMEOUT_S = 10
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo"}  # the host's name may lead to a device that the namespace lacks


def words(megabits: float) -> list[str]:
    """What to write before a command so that loopback carries `megabits` (1e6 bit/s) for it; skips where refused."""
    return _permitted([*_apart("--net"), "sh", "-c", SETUP, f"{round(megabits * 1000)}kbit", BURST, WAITS])


def named(host: str) -> list[str]:
    """What to write before a command so that its processes are on a host of this name; skips where refused."""
    return _permitted([*_apart("--uts"), "sh", "-c", 'hostname "$0" && exec "$@"', host])


def _apart(kind: str) -> list[str]:
    """A namespace, as root, or as who is root in a user namespace only."""
    return ["unshare", kind] if os.geteuid() == 0 else ["unshare", "--map-root-user", kind]


def _permitted(prefix: list[str]) -> list[str]:
    said = _refusal((*prefix, "true"))
    if said:
        pytest.skip(f"`{prefix[0]} {prefix[1]}` is not permitted here: {said}")
    return prefix


@functools.cache
def _refusal(command: tuple[str, ...]) -> str:
    """What a command that fails says last; nothing where it succeeds."""
    if shutil.which(command[0]) is None:
        return "it is not installed"
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else ""
