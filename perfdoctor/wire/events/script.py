"""Events of what the script builds and sets: models, optimizers, threads, checkpoints, number types."""

from __future__ import annotations

from . import Event, Line


class RootModuleEvent(Event, name="root"):
    """The script called a model for the first time."""

    module: str | None  # module.Class
    modules: int  # inside it, itself included
    parameters: int
    parameter_bytes: int
    float64: float  # share of the parameters
    float16: float
    device: str | None
    built: Line | None
    at: Line | None
    float16_trained: float | None = None  # of the parameters that are trained


class OptimizerEvent(Event, name="optimizer"):
    """An optimizer stepped for the first time."""

    id: int | None
    class_: str | None  # module.Class
    way: str | None  # fused | foreach | for-loop
    momentum: bool
    differentiable: bool
    sparse: bool
    tensors: int
    elements: int
    float64: float  # share of the elements
    device: str | None
    built: Line | None
    at: Line | None
    complex_numbers: bool = False  # among its parameters


class DoublePrecisionEvent(Event, name="float64"):
    """A call made double precision the default, or turned a module into it."""

    what: str
    at: Line | None


class ThreadsEvent(Event, name="threads"):
    """The script set the number of torch's intra-op threads."""

    intra_op: int
    at: Line | None


class DeviceEvent(Event, name="device"):
    """An accelerator trains."""

    backend: str | None
    name: str | None


class TrainedDevicesEvent(Event, name="trained_devices"):
    """The accelerators that hold what a process trains."""

    devices: list[int]  # as torch numbers those that the process can see
    uuids: list[str]  # of the same; "" where torch does not tell


class SaveEvent(Event, name="save"):
    """A checkpoint was written."""

    begin_ns: int | None
    seconds: float
    bytes: int | None
    at: Line | None


class GradNamesEvent(Event, name="grad_names"):
    """In a loop without modules: names that hold results of the forward pass."""

    names: list[str]
    function: str | None
    at: Line | None


class SettingsEvent(Event, name="settings"):
    """Settings as they acted before a backward, written when one had changed."""

    autocast_in_backward: str | None
    scaled: bool  # by a GradScaler
    loss_dtype: str | None
    default_dtype: str | None
    device: str | None
    at: Line | None
    devices: int | None = None  # from here on: where CUDA is initialised
    cudnn_benchmark: bool | None = None
    matmul_precision: str | None = None
    cudnn_tf32: bool | None = None
    cudnn_version: int | None = None  # the first of its numbers, as torch was built with
