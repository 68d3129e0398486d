"""A script that ends because its device cannot be used: what its error is about.

Nothing is wrapped. The error is the one that the interpreter itself keeps of a script that raised.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from typing import Optional

from ...wire import names
from ...wire.events.device_errors import DeviceErrorEvent
from .. import patch
from ..observer import Watch, observer

# The first that is found decides; words of torch, of CUDA's runtime and of HIP's.
KINDS = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("old-driver", r"driver on your system is too old|driver version is insufficient for"),
        (
            "no-driver",
            r"found no nvidia driver|no (cuda|hip)[ -](gpus are available|capable device is detected)",
        ),
        ("held", r"device\(s\) is/are busy or unavailable|exclusive.{0,20}process"),
        (
            "lost",
            r"gpu is lost|device (is|was) lost|unable to determine the device handle|fallen off the bus",
        ),
    )
)


def kind_of(error: BaseException) -> Optional[str]:
    """What an error says of the device, or None where it is about something else."""
    if not isinstance(error, (RuntimeError, AssertionError)):  # torch raises no other for its devices
        return None
    message = str(error)
    return next((kind for kind, pattern in KINDS if pattern.search(message)), None)


@observer
def device_errors(watch: Watch) -> None:
    """Look at the end what ended the script: most such errors come before any training."""
    session = watch.session

    def look() -> None:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        kind = kind_of(error) if error is not None else None
        if kind is not None and os.getpid() == session.pid and not session.in_worker():
            session.append(DeviceErrorEvent(kind=kind), file=names.BOOT)

    atexit.register(patch.guarded("device errors", look))
