"""NVIDIA's profiling interface, CUPTI, under torch's profiler: whether it is free, and that it lets go."""

from __future__ import annotations

from typing import Any, MutableMapping, Optional

# torch's profiler leaves CUPTI attached when it ends, unless this is "1" when it begins and ends. Attached it
# made each step of a loop that is bound by launches 41 % longer (torch 2.11 with CUDA 13.0, on an H200).
TEARDOWN = "TEARDOWN_CUPTI"
# With CUDA graphs, beginning again after it let go crashed before this version: torch turns it off as well.
SAFE_SINCE = (12, 6)


def cupti_taken(environ: MutableMapping[str, str]) -> Optional[str]:
    """Why the device's activity has to be left out: another tool reads it, and only one can."""
    for name in ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"):
        if environ.get(name):
            return f"{name} is set: another profiler reads the device"
    if "ToolsInjection" in environ.get("LD_PRELOAD", ""):
        return "LD_PRELOAD names an injection library: another profiler reads the device"
    return None


def let_go_after_windows(torch: Any, environ: MutableMapping[str, str]) -> None:
    """From the next window on, have CUPTI detached behind each, where that is safe and the user says nothing.

    The variable has to stay: what detaches looks at it later, in a thread of its own.
    """
    version = getattr(torch.version, "cuda", None)
    if version and tuple(map(int, version.split(".")[:2])) >= SAFE_SINCE:
        environ.setdefault(TEARDOWN, "1")
