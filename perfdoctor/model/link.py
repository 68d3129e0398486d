"""A measured link between ranks: its all-reduces, the line through them, and the network card.

Words as in nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the *algorithm bandwidth* of an
exchange is its bytes over its time; the *bus bandwidth* is that times 2 (n - 1) / n, because in a ring of n
ranks each sends and receives so many times the bytes (Patarasuk and Yuan, 2009). The bus bandwidth is that of
the slowest link, whatever n is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import median

from perfdoctor.model.dataclass import dataclass

SCHEMA = "perfdoctor.net/1"
LEAST_SIZES = 3  # a line through fewer fits anything
LEAST_BYTES = 2**20  # of the largest size: smaller exchanges are latency and little else


@dataclass(frozen=True)
class Nic:
    """One card, or one port of an InfiniBand card. What a virtual card can carry, nobody knows."""

    name: str
    bytes_per_s: float | None  # in one direction


@dataclass(frozen=True)
class AllReduce:
    """All-reduces of one size. Seconds are of one of them: the mean over ranks, median and quartiles."""

    bytes: int
    seconds: float
    low_s: float
    high_s: float
    repetitions: int


@dataclass(frozen=True)
class Law:
    """An exchange of n bytes takes latency_s + n * seconds_per_byte, give or take `error`, a share of it."""

    latency_s: float
    seconds_per_byte: float
    error: float  # median over the sizes

    def seconds(self, size: float) -> float:
        """How long an exchange of so many bytes takes."""
        return self.latency_s + size * self.seconds_per_byte


@dataclass(frozen=True)
class Net:
    """One measurement. `cut` is the size that did not fit into the time any more; `ended` what went wrong."""

    path: str
    command: tuple[str, ...]
    backend: str
    device: str  # "cpu", or the name of the first rank's
    torch: str
    hosts: tuple[str, ...]  # of each rank
    exchanges: tuple[AllReduce, ...]  # smallest first
    cut: int | None = None
    ended: str | None = None
    nic: Nic | None = None  # that ranks on other hosts are likely reached by

    @property
    def ranks(self) -> int:
        """How many took part."""
        return len(self.hosts)

    @property
    def ring(self) -> float:
        """How many times the bytes of an exchange each rank sends, by the ring's law."""
        return 2.0 * (self.ranks - 1) / self.ranks

    def bus_bytes_per_s(self, exchange: AllReduce) -> float:
        """The bus bandwidth of an exchange."""
        return self.ring * exchange.bytes / exchange.seconds

    @cached_property
    def law(self) -> Law | None:
        """The line through all sizes, or None where too few, or small ones only, were measured."""
        enough = len(self.exchanges) >= LEAST_SIZES and self.exchanges[-1].bytes >= LEAST_BYTES
        return fitted(self.exchanges) if enough else None

    @property
    def link_bytes_per_s(self) -> float | None:
        """The bus bandwidth of exchanges so large that latency does not matter."""
        return self.ring / self.law.seconds_per_byte if self.law and self.law.seconds_per_byte else None


def fitted(exchanges: Sequence[AllReduce]) -> Law:
    """The line whose relative errors are least in the squares; neither part is below zero.

    Relative, because times span several orders: of absolute errors only the largest size would count.
    """
    points = [(float(each.bytes), each.seconds) for each in exchanges]
    ones = sum(1 / t**2 for _, t in points)
    sizes = sum(x / t**2 for x, t in points)
    squares = sum((x / t) ** 2 for x, t in points)
    inverse, rates = sum(1 / t for _, t in points), sum(x / t for x, t in points)
    latency_s = (inverse * squares - rates * sizes) / (ones * squares - sizes**2)
    slope_s = (rates * ones - inverse * sizes) / (ones * squares - sizes**2)
    if latency_s < 0:
        latency_s, slope_s = 0.0, rates / squares
    elif slope_s < 0:
        latency_s, slope_s = inverse / ones, 0.0
    law = Law(latency_s, slope_s, 0.0)
    return Law(latency_s, slope_s, median(abs(law.seconds(x) / t - 1) for x, t in points))
