from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers import out_of_memory
from perfdoctor.wire.events.memory import OutOfMemoryEvent
from tests.support.watched import prepared, read

pytestmark = pytest.mark.process

SCRIPT = """
    import torch

    model = torch.nn.Linear(1000, 1000)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(4):
        optimizer.zero_grad()
        x = torch.ones(8, 1000)
        y = model(x)
        if step == 3:
            x = torch.ones(10**13)
        y.sum().backward()
        optimizer.step()
"""


def ended(folder, code):
    """What a script told that ends with an error of its own."""
    env = prepared(folder, code)
    bare = subprocess.run([sys.executable, "script.py"], cwd=folder, env=env, capture_output=True, text=True)
    assert bare.returncode == 1
    return read(folder).ranks[0].of(OutOfMemoryEvent), bare.stderr


def test_what_held_the_hosts_memory_is_told_with_the_line_that_asked_for_more(tmp_path):
    (event,), printed = ended(tmp_path, SCRIPT)
    assert "can't allocate memory" in printed
    assert (event.device, event.at["line"]) == ("cpu", 11)
    assert event.asked_bytes == 4 * 10**13
    parameters = 4 * (1000 * 1000 + 1000)
    assert (event.parameters_bytes, event.gradients_bytes) == (parameters, 0)  # zero_grad lets go of them
    assert 2 * parameters <= event.optimizer_bytes <= 2 * parameters + 1000
    assert event.stepped
    assert 0 < event.base_bytes < event.held_bytes < event.total_bytes


def test_another_error_is_none_of_memory(tmp_path):
    events, printed = ended(tmp_path, SCRIPT.replace("torch.ones(10**13)", "torch.ones(2) @ torch.ones(3)"))
    assert "RuntimeError" in printed
    assert not events


class LostMemory(RuntimeError):
    """Stands for the error of a device that is not here."""


CUDA = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 79.19 GiB of which 1.2 GiB"
)


@pytest.mark.parametrize(
    ("error", "device", "asked"),
    [
        (LostMemory(CUDA), "cuda:1", int(2.5 * 2**30)),
        (
            RuntimeError("[enforce fail] can't allocate memory: you tried to allocate 4096 bytes."),
            "cpu",
            4096,
        ),
        (MemoryError(), "cpu", None),
        (OSError(12, "Cannot allocate memory"), "cpu", None),
        (RuntimeError("XPU out of memory. Tried to allocate 20.00 MiB (XPU 0; ...)"), "xpu:0", 20 * 2**20),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None, None),
        (KeyError("out of memory"), None, None),
    ],
)
def test_errors_tell_which_device_and_how_much(error, device, asked):
    assert out_of_memory.device_of(torch, error) == device
    assert out_of_memory.asked_bytes(str(error)) == asked


def test_a_devices_memory_is_what_its_module_says():
    cuda = SimpleNamespace(
        max_memory_allocated=lambda device: 70,
        memory_reserved=lambda device: 75,
        mem_get_info=lambda device: (3, 80),
    )
    device = SimpleNamespace(type="cuda")
    assert out_of_memory._of_device(SimpleNamespace(cuda=cuda), device) == (70, 75, 3, 80)
    assert out_of_memory._of_device(SimpleNamespace(), device) == (None, None, None, None)
