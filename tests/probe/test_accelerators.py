"""Accelerators by stand-ins for torch: what each kind's module has and lacks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfdoctor.probe import accelerators

OLD = "torch before 2.6"


def module(**given: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: (lambda *args, value=value: value) for name, value in given.items()})


def torch(kind: str | None, is_there: bool = True, cuda: bool = False, **modules: Any) -> SimpleNamespace:
    """A torch that was built for a kind of device; `cuda`: whether CUDA is initialised."""
    made = SimpleNamespace(cuda=module(is_initialized=cuda, is_available=cuda), **modules)
    if kind != OLD:
        device = SimpleNamespace(type=kind) if kind is not None else None
        made.accelerator = module(is_available=is_there)
        made.accelerator.current_accelerator = lambda check_available=False: device
    return made


def counting(cuda: str | None, device: Any = None) -> SimpleNamespace:
    """A torch 2.6, built for this version of CUDA or another kind; it has such a device, or none."""

    def current_accelerator() -> Any:
        assert cuda is None, "asked, which starts the driver"
        if device is None:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return device

    made = torch(None, xpu=XPU)
    made.accelerator.current_accelerator = current_accelerator
    made.version = SimpleNamespace(cuda=cuda, hip=None)
    made.device = lambda kind: SimpleNamespace(type=kind)
    return made


XPU = module(is_initialized=True, is_available=True, is_current_stream_capturing=True)
MPS = module(is_available=True)
NPU = module(is_initialized=True)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        pytest.param(torch("cuda", cuda=True), "cuda", id="cuda-or-rocm"),
        pytest.param(torch(OLD, cuda=True), "cuda", id="old-torch"),
        pytest.param(torch(OLD), None, id="old-torch-without-a-device"),
        pytest.param(torch("cuda"), None, id="cuda-not-yet-initialised"),
        pytest.param(torch("xpu", xpu=XPU), "xpu", id="xpu"),
        pytest.param(torch("xpu", xpu=module(is_initialized=False)), None, id="xpu-not-yet-initialised"),
        pytest.param(torch("mps", mps=MPS), "mps", id="mps-has-no-start-of-its-own"),
        pytest.param(torch("npu", npu=NPU), "npu", id="a-vendors-own"),
        pytest.param(torch("privateuseone"), None, id="a-vendors-without-a-module"),
        pytest.param(torch(None), None, id="none"),
        pytest.param(counting("12.4"), None, id="torch-2.6-built-for-cuda"),
        pytest.param(counting(None), None, id="torch-2.6-without-a-device"),
        pytest.param(counting(None, SimpleNamespace(type="xpu")), "xpu", id="torch-2.6-with-another-device"),
    ],
)
def test_the_kind_in_use_is_what_the_script_has_initialised(made: Any, kind: str | None) -> None:
    used = accelerators.in_use(made)
    assert (None if used is None else used.kind) == kind


def test_what_a_kind_lacks_is_not_known() -> None:
    mps = accelerators.Accelerator("mps", MPS)
    assert mps.ask("max_memory_allocated", 0) is None
    assert not mps.is_capturing
    assert accelerators.Accelerator("xpu", XPU).is_capturing


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (torch("xpu", xpu=XPU), "xpu"),
        (torch("xpu", is_there=False, xpu=XPU), None),
        (torch(OLD, cuda=True), "cuda"),
        (torch(OLD), None),
    ],
)
def test_a_kind_is_available_where_there_is_such_a_device(made: Any, kind: str | None) -> None:
    found = accelerators.available(made)
    assert (None if found is None else found.kind) == kind


def test_what_torch_is_built_for_is_known_without_a_device() -> None:
    found = accelerators.built_for(counting("12.4"))
    assert found is not None
    assert found.kind == "cuda"
    assert accelerators.built_for(counting(None)) is None


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_what_computes_nothing_apart_is_no_accelerator(kind: str) -> None:
    assert accelerators.of_kind(torch("cuda", cpu=module()), kind) is None


def test_in_the_real_torch_nothing_is_in_use() -> None:
    real = pytest.importorskip("torch")
    if real.cuda.is_available():
        pytest.skip("a device may be in use")
    assert accelerators.in_use(real) is None
