"""Opens what lies in a folder of records, and nothing that reading would wait for or find no end of."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """The file, to be read. Raises OSError as `open` does, and for a pipe, a device or a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer waits
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def content(path: Path) -> bytes:
    """All bytes of the file. Raises OSError as `opened` does."""
    with opened(path) as file:
        return file.read()
