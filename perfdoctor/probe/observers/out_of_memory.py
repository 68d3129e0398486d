"""What held the memory when the script ended for want of it.

Python keeps the exception that ends a script, and with it the frames and tensors of that moment, until the
process is gone: at its end they are counted. Nothing is hooked in, and the error stays as it is.
"""

from __future__ import annotations

import os
import re
import sys
from types import TracebackType
from typing import Any, Dict, Optional, Tuple

from ...wire.events.memory import OutOfMemoryEvent
from .. import accelerators
from ..by_identity import ByIdentity
from ..containers import is_a
from ..module_parts import parameters_of
from ..observer import Watch, observer
from ..user_frames import is_users

HOST = "cpu"
ON_HOST = re.compile(r"can't allocate memory|Cannot allocate memory|std::bad_alloc|^MemoryError")
ON_DEVICE = re.compile(r"out of memory", re.IGNORECASE)
IN_WORKER = re.compile(r"^Caught \w+ in DataLoader worker process")
ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+) (bytes|B|KiB|MiB|GiB|TiB)?")
DEVICE = re.compile(r"\b(GPU|XPU|device) (\d+)\b")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

Line = Optional[Dict[str, Any]]


class MemoryAtEnd:
    """The models and optimizers of one process, and what they hold at its end."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.models: ByIdentity[bool] = ByIdentity()
        self.optimizers: ByIdentity[int] = ByIdentity()  # their numbers
        self.base: Dict[str, int] = {}  # what the kernel said before a model was called
        self.told = False

    def model(self, model: Any, modules: int) -> None:
        """A model is called for the first time."""
        if not self.base:
            parameters = sum(_bytes(parameter, HOST) for parameter in parameters_of(model))
            status = _kibibytes("/proc/self/status")
            self.base = {name: max(0, size - parameters) for name, size in status.items()}
        self.models[model] = True

    def look(self) -> None:
        """Tell of it, once, if the exception that ended the script was about memory."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if self.told or error is None:
            return
        self.told = True
        device = device_of(self.torch, error)
        if device is not None:
            self.watch.write(self._event(error, device))

    def _event(self, error: BaseException, device: str) -> OutOfMemoryEvent:
        parameters, gradients, state = self._held(device)
        message = str(error)
        base = None
        if device == HOST:
            base, held, free, total = self._of_host()
            reserved = None
        else:
            held, reserved, free, total = _of_device(self.torch, self.torch.device(device))
        return OutOfMemoryEvent(
            device=None if IN_WORKER.match(message) else device,
            asked_bytes=asked_bytes(message),
            parameters_bytes=parameters,
            gradients_bytes=gradients,
            optimizer_bytes=state,
            base_bytes=base,
            stepped=len(self.optimizers) > 0,
            held_bytes=held,
            reserved_bytes=reserved,
            free_bytes=free,
            total_bytes=total,
            at=line_of(error.__traceback__),
        )

    def _held(self, device: str) -> Tuple[int, int, int]:
        """Bytes of parameters, of gradients and of what optimizers keep, on one device."""
        seen: Dict[int, Any] = {}
        for model in list(self.models):
            seen.update((id(parameter), parameter) for parameter in parameters_of(model))
        kept = 0
        for optimizer in list(self.optimizers):
            for group in optimizer.param_groups:
                seen.update((id(parameter), parameter) for parameter in group["params"])
            kept += sum(
                _bytes(value, device)
                for state in list(optimizer.state.values())
                if is_a(state, dict)
                for value in state.values()
                if is_a(value, self.torch.Tensor)
            )
        parameters = sum(_bytes(parameter, device) for parameter in seen.values())
        gradients = sum(_bytes(p.grad, device) for p in seen.values() if p.grad is not None)
        return parameters, gradients, kept

    def _of_host(self) -> Tuple[Optional[int], ...]:
        """Of this process: what it began with, what it held at most, what is free, what it was allowed."""
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        status, memory = _kibibytes("/proc/self/status"), _kibibytes("/proc/meminfo")
        total = memory.get("MemTotal")
        if allowed == resource.RLIM_INFINITY or (total is not None and allowed > total):
            return self.base.get("VmRSS"), status.get("VmHWM"), memory.get("MemAvailable"), total
        # a limit of that kind counts what is mapped
        return self.base.get("VmSize"), status.get("VmPeak"), memory.get("MemAvailable"), allowed


@observer
def out_of_memory(watch: Watch) -> None:
    """Keep hold of models and optimizers, weakly, and look at the end what ended the script."""
    account = MemoryAtEnd(watch)
    watch.on_model("out of memory", account.model)
    watch.on_optimizer("out of memory", account.optimizers.__setitem__)
    watch.each_second("out of memory", account.look)


def device_of(torch: Any, error: BaseException) -> Optional[str]:
    """Where there was no memory left: "cpu" or a device's name; None where the error is another one."""
    message = str(error)
    kinds = tuple(
        kind
        for owner in (torch, torch.cuda)
        if isinstance(kind := getattr(owner, "OutOfMemoryError", None), type)
    )
    if isinstance(error, kinds) or (isinstance(error, RuntimeError) and ON_DEVICE.search(message)):
        named = DEVICE.search(message)
        kind = "xpu" if named is not None and named.group(1) == "XPU" else _accelerator(torch)
        return f"{kind}:{named.group(2)}" if named is not None else kind
    if isinstance(error, MemoryError) or (
        isinstance(error, (RuntimeError, OSError)) and ON_HOST.search(message)
    ):
        return HOST
    return None


def asked_bytes(message: str) -> Optional[int]:
    """How much the allocation that failed was to hold, if the message says it."""
    asked = ASKED.search(message)
    return int(float(asked.group(1).rstrip(".")) * UNITS.get(asked.group(2) or "", 1)) if asked else None


def line_of(traceback: Optional[TracebackType]) -> Line:
    """The innermost line of the user's in a traceback."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_users(code.co_filename):
            file = os.path.abspath(code.co_filename)
            found = {"file": file, "line": traceback.tb_lineno, "function": code.co_name}
        traceback = traceback.tb_next
    return found


def _accelerator(torch: Any) -> str:
    found = accelerators.built_for(torch)
    return accelerators.CUDA if found is None else found.kind


def _bytes(tensor: Any, device: str) -> int:
    """What a tensor holds on a device; a name without a number is all of its kind."""
    return int(tensor.numel() * tensor.element_size()) if str(tensor.device).startswith(device) else 0


def _of_device(torch: Any, device: Any) -> Tuple[Optional[int], ...]:
    """Of a device: what tensors held at most, what torch had reserved, what is free, all there is."""
    module = getattr(torch, device.type, None)

    def asked(name: str) -> Any:
        function = getattr(module, name, None)
        return None if function is None else function(device)

    free, total = asked("mem_get_info") or (None, None)
    return asked("max_memory_allocated"), asked("memory_reserved"), free, total


def _kibibytes(path: str) -> Dict[str, int]:
    """A file of the kernel's with lines such as `VmHWM:  123 kB`, in bytes."""
    try:
        # A codec that Python has loaded: an import inside a profile of the script's, with stacks, can end it.
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.findall(r"^(\w+):\s+(\d{1,15}) kB$", file.read(), re.MULTILINE)
    except OSError:
        return {}
    return {name: int(amount) * 1024 for name, amount in found}
