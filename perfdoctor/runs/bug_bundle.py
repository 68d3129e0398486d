"""A bundle for a bug report: what tells of a failure, and as little else as possible.

Everything in it was redacted when it was written down, and is once more; the user's home and the host's name
are replaced. Traces and stacks, which are large and full of names, are left out.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.redaction import redact
from perfdoctor.runs import directory, regular_file
from perfdoctor.wire.names import PROBE_LOG, windows_file
from perfdoctor.wire.rows import TEXT_BYTES

LAST = "failure.txt"  # the last failure of a whole command, in the user's state folder
LEFT_OUT = re.compile(r"(?:trace|stacks)\.|.*\.(?:gz|log)$|reserve$|sources\.json$")
MOST_BYTES = 1 << 20  # of each file, its beginning
PACKAGES = (
    "perfdoctor torch numpy psutil py-spy nvidia-ml-py orjson rich typer jinja2"
    " lightning transformers accelerate"
)
SHORT = 4  # characters of a host's name: shorter ones are words of their own


def last_failure() -> Path:
    """Where the last failure of a whole command is kept. Raises OSError where the user has no folder."""
    return directory.state_home() / "perfdoctor" / LAST


def keep(words: Sequence[str], failure: OwnFailure) -> None:
    """Keep the failure of the command `words` in place of the one before. Raises OSError."""
    lines = (time.strftime("%Y-%m-%d %H:%M:%S"), " ".join(redact.command(words)), failure.trace)
    told = redact.text("\n".join(lines), redact.secrets(words, os.environ))
    file = last_failure()
    directory.make_private(file.parent)
    directory.write_bytes(file, told.encode("utf-8", "backslashreplace"))


def write(file: Path, run: Path | None, failures: Iterable[OwnFailure]) -> list[str]:
    """Write the bundle, with what is known of `run` and of `failures`. Returns its files' names.

    Raises OSError, FileExistsError among them.
    """
    with open(file, "xb", opener=directory.opened_private) as opened:
        try:
            with zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as bundle:
                for name, content in _contents(run, failures):
                    bundle.writestr(name, content)
                return bundle.namelist()
        except OSError:
            file.unlink(missing_ok=True)  # half a bundle is none
            raise


def _contents(run: Path | None, failures: Iterable[OwnFailure]) -> Iterator[tuple[str, bytes]]:
    names = _names_of_here()
    yield "about.json", _plain(json.dumps(_about(), indent=2), names)
    with suppress(OSError):  # none was kept
        yield LAST, _plain(last_failure().read_text("utf-8", "replace"), names)
    traces = [f"{failure.feature}\n{failure.trace}" for failure in failures]
    if traces:
        yield "failures-of-the-report.txt", _plain("\n".join(traces), names)
    for path in sorted(run.iterdir()) if run is not None else ():
        if path.name != PROBE_LOG and LEFT_OUT.match(path.name):
            continue
        content = _beginning(path)
        if content is not None:
            is_rows = path.suffix == ".bin"
            yield (
                f"run/{_member(path.name)}",
                _rows(content, names) if is_rows else _plain(_decoded(content), names),
            )


def _member(name: str) -> str:
    """What a file of a run is called in a bundle: that of a host's windows has the host's name."""
    return windows_file("host") if fnmatch(name, windows_file("*")) else name


def _about() -> dict[str, Any]:
    return {
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(),
        "environment": redact.environment(os.environ),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES.split():
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def _names_of_here() -> Mapping[str, str]:
    """What tells who and where the user is, and what stands for it."""
    home, host = os.path.expanduser("~"), platform.node()
    names = {home: "~"} if home not in ("~", "/") else {}
    return names | ({host: "<host>"} if len(host) >= SHORT and host != "localhost" else {})


def _plain(text: str, names: Mapping[str, str]) -> bytes:
    """The text without secrets and without such names."""
    for name, instead in names.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", instead, text)
    return "\n".join(redact.text(line) for line in text.split("\n")).encode("utf-8", "backslashreplace")


def _rows(content: bytes, names: Mapping[str, str]) -> bytes:
    """Rows are numbers, and so is the end of the header; only what comes before has words."""
    text = _plain(_decoded(content[:TEXT_BYTES]), names)
    return text[:TEXT_BYTES].ljust(TEXT_BYTES) + content[TEXT_BYTES:]


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _beginning(path: Path) -> bytes | None:
    """The first bytes of a file; None of what is none, or may not be read."""
    try:
        with regular_file.opened(path) as file:
            return file.read(MOST_BYTES)
    except OSError:
        return None
