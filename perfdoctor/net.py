"""The link between ranks, measured: our own program started in several processes, and what it found.

Words as in nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the *algorithm bandwidth* of an
exchange is its bytes over its time; the *bus bandwidth* is that times 2 (n - 1) / n, because in a ring of n
ranks each sends and receives so many times the bytes (Patarasuk and Yuan, 2009). The bus bandwidth is that of
the slowest link, whatever n is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from perfdoctor import command, nics, printed, relay, rundir
from perfdoctor.errors import CannotStart, NotARun, PerfdoctorError
from perfdoctor.rundir import Json

PROGRAM = Path(__file__).parent / "probe" / "exchanging.py"
KIND = "nets"  # the folder beside that of the runs
SCHEMA = "perfdoctor.net/1"
FILE, MEASURED, LOG = "net.json", "exchanges.jsonl", "printed.log"
SECONDS = 15.0  # for the measurement: more repetitions than that tell no more
STARTING_S = 180.0  # for ranks to import torch and find each other; then the time is up
LOOK_S = 120.0  # for one interpreter to import torch
ENDING_S = 10.0  # for a launcher to end its ranks
INTERRUPTED = "interrupted"  # how a measurement ended that the user broke off
LEAST_SIZES = 3  # a line through fewer fits anything
LEAST_BYTES = 2**20  # of the largest size: smaller exchanges are latency and little else
BY_HAND = "perfdoctor net -- torchrun --nproc-per-node 2"

Watch = Callable[[Path], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Exchange:
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
    exchanges: tuple[Exchange, ...]  # smallest first
    cut: int | None = None
    ended: str | None = None
    nic: nics.Nic | None = None  # that ranks on other hosts are likely reached by

    @property
    def ranks(self) -> int:
        """How many took part."""
        return len(self.hosts)

    @property
    def ring(self) -> float:
        """How many times the bytes of an exchange each rank sends, by the ring's law."""
        return 2.0 * (self.ranks - 1) / self.ranks

    def bus_bytes_per_s(self, exchange: Exchange) -> float:
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


def fitted(exchanges: Sequence[Exchange]) -> Law:
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


# ---------------------------------------------------------------- measuring


def measure(
    launcher: Sequence[str],
    ranks: int | None = None,
    seconds: float = SECONDS,
    out: str | None = None,
    watch: Watch = lambda path: nullcontext(),
) -> Net:
    """Start ranks and let them exchange, for about so many seconds; what is measured is kept.

    `launcher` are words that start a Python program in several processes; without any, torch's own launcher
    starts `ranks` of them on this host: one for each GPU, or two. `watch(path)` is open meanwhile. Raises
    PerfdoctorError where nothing can be measured.
    """
    words = _launcher(launcher, ranks)
    folder = rundir.create(rundir.home(out, KIND).absolute(), "net")
    argv = (*words, str(PROGRAM), str(folder / MEASURED), f"{seconds:g}")
    limit_s = None if launcher else STARTING_S + 2 * seconds  # other hosts may be started by hand, later
    with watch(folder):
        ended = _run(argv, folder / LOG, limit_s)
    facts: Json = {"schema": SCHEMA, "command": list(words), "ended": ended, "nic": None}
    begun = _lines(folder / MEASURED)
    if begun and ended is None:
        card = nics.used(os.environ, str(begun[0].get("backend")))
        facts["nic"] = None if card is None else asdict(card)
    rundir.write_json(folder / FILE, facts)
    if len(begun) <= LEAST_SIZES:  # the first line tells who takes part
        raise _nothing(ended, folder / LOG)
    return read(folder)


class Interrupted(PerfdoctorError):
    """Ctrl-C before anything was measured."""

    exit_code = 130


class RanksFailed(PerfdoctorError):
    """The ranks did not get to exchange anything."""

    exit_code = 1


def progress(folder: Path) -> int | None:
    """The largest size that is measured so far, in bytes; None before the first."""
    sizes = [line["bytes"] for line in _lines(folder / MEASURED) if line.get("event") == "size"]
    return sizes[-1] if sizes else None


def _launcher(given: Sequence[str], ranks: int | None) -> tuple[str, ...]:
    """The words that start a program in several processes; what is asked for first is whether they can."""
    if given:
        if ranks is not None:
            hint = "tell the launcher how many: perfdoctor net -- torchrun --nproc-per-node 4"
            raise PerfdoctorError("--ranks is for ranks that perfdoctor starts itself", hint)
        try:
            return command.resolve(given, os.environ).argv
        except CannotStart as error:
            hint = f"{error.hint}; torch's own: perfdoctor net -- python -m torch.distributed.run ..."
            raise PerfdoctorError(str(error), hint) from None
    python = command.interpreter(os.environ)
    able = look(python)
    if able.get("torch") is None:
        because = able.get("because")
        raise PerfdoctorError(
            f"{python} cannot import torch" + (f": {because}" if because else ""),
            f"activate the environment that trains, or name its launcher: {BY_HAND}",
        )
    if not able.get("distributed"):
        hint = f"name the launcher of one that has: {BY_HAND}"
        raise PerfdoctorError(f"the torch of {python} was built without torch.distributed", hint)
    gpus = int(able.get("gpus") or 0)
    count = ranks or (gpus if gpus > 1 else 2)
    return (python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}")


def look(python: str) -> Json:
    """What an interpreter has to measure with; without `torch` where it does not even start."""
    try:
        done = subprocess.run(
            [python, str(PROGRAM)], capture_output=True, timeout=LOOK_S, env=_environment(), check=True
        )
        found = orjson.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _environment() -> dict[str, str]:
    """The user's, in which no probe is asked for."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PERFDOCTOR_")}


def _run(argv: Sequence[str], log: Path, limit_s: float | None) -> str | None:
    """Run the ranks to their end: what went wrong, if something did."""
    with relay.Relay() as signals, open(log, "wb") as file:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=_environment()
            )
        except OSError as trouble:
            raise command.cannot_start(argv[0], trouble) from None
        signals.aim(process)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return f"the ranks were not done after {limit_s:.0f} s"
        if signals.ending:
            return INTERRUPTED
    if status == 0:
        return None
    error = printed.last_error(printed.tail(log))
    return error or (f"ended by signal {-status}" if status < 0 else f"exit status {status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)
        return
    process.kill()
    process.wait()


def _nothing(ended: str | None, log: Path) -> PerfdoctorError:
    """The error for ranks that measured too little, or nothing that reached this host."""
    if ended == INTERRUPTED:
        return Interrupted("interrupted before anything was measured")
    if ended is None:
        return RanksFailed(
            "the ranks ended well and left no figures here",
            "the program writes on hosts that have this folder: run perfdoctor net on the first host",
        )
    return RanksFailed(f"the ranks failed: {ended}", f"all that they printed is in {log}")


# ---------------------------------------------------------------- reading


def read(folder: Path) -> Net:
    """The measurement that is kept in a folder. Raises NotARun where there is none that can be read."""
    facts, lines = rundir.read_json(folder / FILE) or {}, _lines(folder / MEASURED)
    begin = lines[0] if lines else {}
    try:
        sizes = [line for line in lines if line.get("event") == "size"]
        ends = [line for line in lines if line.get("event") == "end"]
        return Net(
            str(folder),
            tuple(facts["command"]),
            str(begin["backend"]),
            str(begin["device"]),
            str(begin["torch"]),
            tuple(map(str, begin["hosts"])),
            tuple(_exchange(line) for line in sizes),
            ends[-1]["cut"] if ends else None,
            facts["ended"],
            nics.Nic(**facts["nic"]) if facts["nic"] else None,
        )
    except (KeyError, TypeError, ValueError):
        raise NotARun(
            f"{folder} holds no measured link that can be read", "measure one: perfdoctor net"
        ) from None


def latest(hosts: Sequence[str], place: Path | None = None) -> Net | None:
    """The newest measurement between ranks on exactly these hosts; None where there is none.

    It is looked for where measurements are kept, or in `place`.
    """
    places = [place] if place is not None else rundir.places(kind=KIND)
    folders = [found for each in places for found in each.glob("*") if (found / FILE).is_file()]
    for folder in sorted(folders, key=lambda folder: folder.name, reverse=True):
        with suppress(NotARun):
            net = read(folder)
            if set(net.hosts) == set(hosts) and net.law is not None:
                return net
    return None


def _exchange(line: Mapping[str, Any]) -> Exchange:
    seconds, low_s, high_s = (float(line[name]) for name in ("seconds", "low_s", "high_s"))
    return Exchange(int(line["bytes"]), seconds, low_s, high_s, int(line["repetitions"]))


def _lines(file: Path) -> list[Json]:
    """The objects of a file of JSON lines, without a last one that is cut off."""
    found: list[Json] = []
    try:
        for line in file.read_bytes().splitlines():
            value = orjson.loads(line)
            if isinstance(value, dict):
                found.append(value)
    except (OSError, ValueError):
        pass  # what came before the trouble is what there is
    return found
