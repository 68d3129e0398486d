"""The measures of traces: one `RankTrace` for each file. Times are microseconds.

`span` runs from the first to the last device event, `busy` is the union of all device events over all
streams, `compute` the union of kernels that are not communication, `comm` of those that are, `overlap` their
intersection. What a trace cannot tell is None, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Remark
from perfdoctor.trace.parse.columns import ProcessGroup, Skipped

ON_BUS = ("HtoD", "DtoH", "HtoH")  # between host and device; copies within the device are its own work


class KernelClass(str, Enum):
    """What a device event is for."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALISATION = "normalisation"
    REDUCTION = "reduction"
    POINTWISE = "pointwise"
    OPTIMIZER = "optimizer"
    CLIPPING = "clipping and averaging"  # of all gradients or parameters, beside an optimizer's step
    LAYOUT = "layout conversion"
    COMMUNICATION = "communication"
    COPY = "copy"
    MEMSET = "memset"
    OTHER = "other"


class IdleCause(str, Enum):
    """Why the device had nothing to run."""

    HOST_LATE = "host_late"  # the next launch had not begun: Python and dispatch are too slow
    DATA_WAIT = "data_wait"  # the host was inside DataLoader
    SYNC = "sync"  # the host had waited for the device and launched nothing behind it
    COPY = "copy"  # the host was inside a blocking copy
    OTHER_RANK = "other_rank"  # streams waited for a collective that another rank had not entered
    LAUNCH_GAP = "launch_gap"  # the launch was there: dispatch latency and dependencies between streams
    UNKNOWN = "unknown"  # the launch is not in the trace, or what the device waited for behind it

    @property
    def label(self) -> str:
        """How it is called on pages: `idle: host late`."""
        return f"idle: {self.value.replace('_', ' ')}"


@dataclass(frozen=True)
class StreamUse:
    """One stream and its gaps between events (running maximum of ends)."""

    device: int
    stream: int
    count: int
    busy_us: float
    host_wait_us: float  # gaps where the next event's launch began after the previous end
    kernel_wait_us: float  # other gaps shorter than 30 us
    other_gap_us: float  # the rest


@dataclass(frozen=True)
class Times:
    """The measures of one stretch of time: a whole file, or one step of it."""

    span_us: float
    busy_us: float
    compute_us: float
    comm_us: float
    overlap_us: float
    copy_us: float  # union of copies and memsets
    copy_overlap_us: float  # of copies and memsets with compute

    @property
    def idle_us(self) -> float:
        """Time without any device event."""
        return self.span_us - self.busy_us

    @property
    def exposed_comm_us(self) -> float:
        """Communication that no compute hides."""
        return self.comm_us - self.overlap_us


@dataclass(frozen=True)
class StepTrace:
    """One step, from the host's ProfilerStep annotation: of a device that lags, as in `device_steps`."""

    name: str
    begin_ns: int  # of the annotation
    times: Times  # all but span is 0 where `RankTrace.times` is None
    dataloader_us: float  # within the annotation
    idle_us: Mapping[IdleCause, float]
    operators_us: float | None = None  # as in RankTrace
    begun: int = 1  # operators and calls of the runtime that began within the annotation


@dataclass(frozen=True)
class WorkLane:
    """When one kind of work was done in a step: begins and ends, from the step's begin on.

    Stretches that touch to the eye are one, and hold more time than the work in them took. `kind` is
    "loading", "operators" or "blocked" of the host, "compute", "communication" or "copying" of a device.
    """

    kind: str
    stretches_us: tuple[tuple[float, float], ...]
    busy_us: float  # the work alone


@dataclass(frozen=True)
class StepLanes:
    """A usual step: what was done at the same time."""

    name: str
    span_us: float
    lanes: tuple[WorkLane, ...]


@dataclass(frozen=True)
class Launches:
    """How far the host runs ahead of the device."""

    count: int  # kernels whose runtime call is in the trace
    delay_median_us: float  # from the call's end to the event's begin
    delay_mean_us: float
    delay_p90_us: float
    queue_mean: float  # launched and not yet begun, weighted by time
    queue_max: int
    call_us: float  # time the host spent inside launching calls


@dataclass(frozen=True)
class ClassUse:
    """All device events of one class. `flops` and `bytes` cover the events they are known for."""

    kind: KernelClass
    count: int
    us: float  # summed durations
    tensor_core_us: float | None  # of it on tensor or matrix cores, None where names cannot tell
    flops: float | None = None
    flops_us: float = 0.0  # duration of the events whose flops are known
    bytes: float | None = None
    bytes_us: float = 0.0
    dtypes: Mapping[str, float] = field(default_factory=dict)  # microseconds by number type, where known


@dataclass(frozen=True)
class KernelUse:
    """All device events of one name."""

    name: str
    kind: KernelClass
    count: int
    us: float
    dtype: str | None
    tensor_core: bool | None
    occupancy: float | None  # mean share of warps, weighted by duration
    op: str | None  # the operator that launched most of it
    beside_us: float = 0.0  # of `us`, while its device computed something else, too
    at: Location | None = None  # a user's function that launches it, as in BlockingCalls
    unfilled_us: float | None = None  # of `us`, by the share of multiprocessors that got no thread block


@dataclass(frozen=True)
class WorkUse:
    """Calls of one operator with the same inputs, whose work is known from their shapes."""

    op: str
    kind: KernelClass
    shapes: tuple[tuple[int, ...], ...]  # of its tensors, in order
    dtype: str | None  # of the arithmetic: "tf32" where kernels multiply float32 inputs so
    count: int
    us: float  # of what they launched of that class
    flops: float  # of one call, as `bytes`; both at least
    bytes: float | None


@dataclass(frozen=True)
class HostWork:
    """Calls of one operator with the same inputs in the steps of a trace of the CPU."""

    op: str
    count: int
    us: float  # of all of them, each taken as long as the median one: what interrupts a few is left out
    flops: float | None  # of one call; None where shapes do not tell


@dataclass(frozen=True)
class OpUse:
    """All calls of one operator; host time is without the operators inside it."""

    name: str
    count: int
    host_us: float
    device_us: float  # of the events launched inside it and in no operator further inside
    kernels: int


@dataclass(frozen=True)
class CopyUse:
    """Copies of one direction between one kind of host memory and the device."""

    direction: str  # "HtoD", "DtoH", "DtoD", "HtoH", "PtoP"
    host_memory: str | None  # "pageable" | "pinned" | "unified"; None between devices or unknown
    count: int
    bytes: int | None
    us: float  # summed durations

    @property
    def gb_per_s(self) -> float | None:
        """Bytes over summed time, in 1e9 bytes per second."""
        return self.bytes / self.us / 1e3 if self.bytes is not None and self.us > 0 else None


@dataclass(frozen=True)
class CopySite:
    """Copies over the bus that one place in the code makes in the judged steps or, without them, anywhere."""

    direction: str  # as in CopyUse
    host_memory: str | None
    op: str | None  # outermost operator around the launch: "aten::to", "aten::item", ...
    at: Location | None  # as in BlockingCalls
    dtype: str | None  # of what is copied, where shapes were recorded
    shape: tuple[int, ...]  # of the first of them; () where not recorded or a scalar
    made_by: str | None  # operator that made the tensor on the host just before, outside a DataLoader
    count: int
    bytes: int | None
    us: float  # summed durations
    exposed_us: float  # of it, hidden by no computing
    idle_us: float  # that the device idles while the host makes the tensor and is in the operator


@dataclass(frozen=True)
class RoundTrip:
    """Tensors that leave the device and come back, nothing being launched in between; several of one kind."""

    out: str | None  # outermost operators around the two copies
    back: str | None
    out_at: Location | None
    back_at: Location | None
    same: bool  # as many bytes come back
    count: int
    bytes: int  # that leave
    us: float  # from the first copy's operator to the end of the second's
    exposed_us: float  # of the copies
    idle_us: float  # that the device idles in between
    computing_us: float  # of it, time inside operators that launch nothing: they compute on the host
    computing: tuple[str, ...] = ()  # their names, longest first


@dataclass(frozen=True)
class BlockingCalls:
    """Runtime calls that made the host wait for the device, by the operator and line that made them."""

    call: str  # "cudaStreamSynchronize", ...
    op: str | None  # outermost operator around the call: "aten::item", "aten::to", ...
    at: Location | None  # the user's line, where stacks were recorded
    annotation: str | None  # innermost user annotation that is no step
    count: int
    us: float  # time inside the calls
    idle_us: float  # of the device's idle time in the judged steps, what followed before it had work again
    direction: str | None = None  # of the copy that the same operator made over the bus: "HtoD", "DtoH"
    host_memory: str | None = None  # of that copy


@dataclass(frozen=True)
class MatrixUse:
    """Matrix products of one shape. Sizes as in C[m, n] = A[m, k] B[k, n], `batch` of them."""

    op: str
    batch: int
    m: int
    n: int
    k: int
    dtype: str  # as in WorkUse
    count: int
    us: float  # device time
    multiple: int  # the largest power of two, up to 64, that divides m, n and k

    @property
    def flops(self) -> float:
        """Of all of them: 2 m n k for each product."""
        return 2.0 * self.batch * self.m * self.n * self.k * self.count


@dataclass(frozen=True)
class AttentionUse:
    """Attention written out, of one size and place: softmax between two batched products, or its gradient.

    Times are of the device; in a trace of the CPU, of operators on the host.
    """

    backward: bool
    heads: int | None  # times the batch; None where shapes were not recorded
    queries: int | None
    keys: int | None
    at: Location | None  # of the softmax, as in BlockingCalls
    count: int
    between_us: float  # scaling, masking, softmax, dropout: what stands between the two products
    products_us: float


@dataclass(frozen=True)
class DevicePeak:
    """What a device can do at most."""

    device: str
    flops_per_s: Mapping[str, float]  # by number type: "float32", "tf32", "bfloat16", ...; dense
    bytes_per_s: float
    source: str


@dataclass(frozen=True)
class Roof:
    """How close one class of kernels comes to the device's limits, over the events whose work is known."""

    kind: KernelClass
    dtype: str | None  # of the limit
    flops_per_s: float | None
    flops_share: float | None  # of the device's peak for that number type
    bytes_per_s: float | None
    bytes_share: float | None
    bound: str | None  # "compute" | "memory": the limit that the same work would meet first
    least_us: float | None  # what the same work takes at that limit


@dataclass(frozen=True)
class Collectives:
    """The communication kernels of one rank by begin, n of them, to be matched with those of other ranks."""

    names: tuple[str, ...]  # (n,)
    duration_us: tuple[float, ...]  # (n,)
    groups: tuple[ProcessGroup | None, ...] = ()  # (n,) None where not recorded; () where none of them is


@dataclass(frozen=True)
class MemoryUse:
    """The high-water mark of the device's memory."""

    allocated_bytes: int
    reserved_bytes: int | None
    total_bytes: int | None  # of the device


@dataclass(frozen=True)
class RankTrace:
    """One file, measured. `times`, `streams`, `idle_us` and `launches` need device events.

    What is listed by class, name, operator, shape or place is of what was begun or launched in the judged
    steps, where there are any. The rest is of the whole file.
    """

    file: str
    rank: int | None
    world_size: int | None
    device: str | None  # its name, None in a trace of the CPU only
    devices: tuple[int, ...]  # numbers of the devices that ran something
    events: int
    device_events: int
    begin_ns: int  # of everything in the file
    end_ns: int  # without what a profiler waits for when it stops, where no device worked
    times: Times | None
    window: Times | None  # from the first step's begin to the last one's end, as the host saw them
    streams: tuple[StreamUse, ...]
    idle_us: Mapping[IdleCause, float]  # adds up to times.idle_us
    launches: Launches | None
    classes: tuple[ClassUse, ...]  # longest first
    kernels: tuple[KernelUse, ...]  # longest first, all of them
    ops: tuple[OpUse, ...]  # longest first
    copies: tuple[CopyUse, ...]
    sites: tuple[CopySite, ...]  # of the copies over the bus, longest first
    round_trips: tuple[RoundTrip, ...]
    blocking: tuple[BlockingCalls, ...]  # longest first
    matrices: tuple[MatrixUse, ...]  # longest first
    work: tuple[WorkUse, ...]  # longest first
    attention: tuple[AttentionUse, ...]  # costliest first
    peak: DevicePeak | None
    roofs: tuple[Roof, ...]  # of the classes whose work is known, longest first
    collectives: Collectives
    memory: MemoryUse | None
    runtime_us: Mapping[str, tuple[int, float]]  # runtime call: (count, summed time)
    dataloader_us: float  # union of time inside DataLoader; without `times`, in which no thread computed
    dataloader_count: int
    sync_us: float  # time inside blocking calls
    steps: tuple[StepTrace, ...]
    skipped: Skipped
    notes: tuple[Remark, ...] = ()  # what a reader should know: no launches, no shapes, an invalid window
    operators_us: float | None = None  # union of time inside operators, outside DataLoader; without `times`
    host_work: tuple[HostWork, ...] = ()  # longest first; without `times`, where shapes were recorded
    lanes: StepLanes | None = None  # needs device events and a step
    pause_us: float = 0.0  # longest without the device's work; without `times`, without operators and loading
