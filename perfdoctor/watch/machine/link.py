"""Measures the link between ranks by a program of our own, started in several processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.errors import CannotStart, Interrupted, NotARun, PerfdoctorError
from perfdoctor.model.launchers import SCRIPT_SUFFIXES
from perfdoctor.model.link import LEAST_SIZES, SCHEMA, AllReduce, Net, Nic
from perfdoctor.redaction import redact
from perfdoctor.runs import directory, json_text
from perfdoctor.runs.checked import checked
from perfdoctor.runs.directory import Json
from perfdoctor.watch import command, log_tail, signals
from perfdoctor.watch.machine import nics

PROGRAM = Path(__file__).with_name("link_program.py")
KIND = "nets"  # the folder beside that of the runs
FILE, MEASURED, LOG = "net.json", "exchanges.jsonl", "printed.log"
SECONDS = 15.0  # for the measurement: more repetitions than that tell no more
STARTING_S = 180.0  # for ranks to import torch and find each other; then the time is up
LOOK_S = 120.0  # for one interpreter to import torch
ENDING_S = 10.0  # for a launcher to end its ranks
INTERRUPTED = "interrupted"  # how a measurement ended that the user broke off
BY_HAND = "perfdoctor net -- torchrun --nproc-per-node 2"

Watch = Callable[[Path], AbstractContextManager[Any]]


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
    folder = directory.create(directory.home(out, KIND).absolute(), "net")
    argv = (*words, str(PROGRAM), str(folder / MEASURED), f"{seconds:g}")
    limit_s = None if launcher else STARTING_S + 2 * seconds  # other hosts may be started by hand, later
    with watch(folder):
        ended = _run(argv, folder / LOG, limit_s)
    if ended is not None:
        ended = redact.text(ended, redact.secrets(words, os.environ))
    facts: Json = {"schema": SCHEMA, "command": redact.command(words), "ended": ended, "nic": None}
    lines = list(json_text.objects(folder / MEASURED))
    if lines and ended is None:
        card = nics.used(os.environ, str(lines[0].get("backend")))
        facts["nic"] = None if card is None else asdict(card)
    directory.write_json(folder / FILE, facts)
    if lines and len(lines[0].get("hosts") or ()) == 1:
        hint = f"start two or more: {BY_HAND}"
        raise PerfdoctorError("only one rank was started, which has no link to measure", hint)
    if len(lines) <= LEAST_SIZES:  # the first line tells who takes part
        raise _nothing(ended, folder / LOG)
    return read(folder)


class RanksFailed(PerfdoctorError):
    """The ranks did not get to exchange anything."""

    exit_code = 1


def progress(folder: Path) -> int | None:
    """The largest size that is measured so far, in bytes; None before the first."""
    sizes = [line["bytes"] for line in json_text.objects(folder / MEASURED) if line.get("event") == "size"]
    return sizes[-1] if sizes else None


def _launcher(words: Sequence[str], ranks: int | None) -> tuple[str, ...]:
    """The words that start a program in several processes; what is asked for first is whether they can."""
    if words:
        if ranks is not None:
            hint = "give the launcher the number: perfdoctor net -- torchrun --nproc-per-node 4"
            raise PerfdoctorError("--ranks is for ranks that perfdoctor starts itself", hint)
        # Started, it would train: our program would only be one more of its arguments.
        if script := next((word for word in words if word.endswith(SCRIPT_SUFFIXES)), None):
            hint = f"give no script: perfdoctor net, or the launcher alone: {BY_HAND}"
            raise PerfdoctorError(f"perfdoctor net starts a test program of its own, not {script}", hint)
        try:
            return command.resolve(words, os.environ).argv
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
    environment = command.unprobed_environment()
    try:
        done = subprocess.run(
            [python, str(PROGRAM)], capture_output=True, timeout=LOOK_S, env=environment, check=True
        )
        answer = orjson.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _run(argv: Sequence[str], log: Path, limit_s: float | None) -> str | None:
    """Run the ranks to their end: what went wrong, if something did."""
    environment = command.unprobed_environment()
    with signals.SignalForwarding() as forwarding, open(log, "wb", opener=directory.opened_private) as file:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as trouble:
            raise command.cannot_start(argv[0], trouble) from None
        forwarding.aim(process)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return f"the ranks did not finish within {limit_s:.0f} s"
        if forwarding.ending:
            return INTERRUPTED
    if status == 0:
        return None
    error = log_tail.last_error(log_tail.tail(log))
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
        return Interrupted(signal.SIGINT)
    if ended is None:
        return RanksFailed(
            "the ranks ended without errors, but left no figures here",
            "figures are written on hosts that have this folder: run perfdoctor net on the first host",
        )
    return RanksFailed(f"the ranks failed: {ended}", f"their output is in {log}")


# ---------------------------------------------------------------- reading


def read(folder: Path) -> Net:
    """The measurement that is kept in a folder. Raises NotARun where there is none that can be read."""
    facts, lines = directory.read_json(folder / FILE) or {}, list(json_text.objects(folder / MEASURED))
    begin = lines[0] if lines else {}
    try:
        sizes = [line for line in lines if line.get("event") == "size"]
        ends = [line for line in lines if line.get("event") == "end"]
        values = {
            "path": str(folder),
            "command": tuple(redact.command(facts["command"])),
            "hosts": tuple(begin["hosts"]),
            "exchanges": tuple(map(_exchange, sizes)),
            "cut": ends[-1]["cut"] if ends else None,
            "ended": facts["ended"],
            "nic": checked(Nic, facts["nic"]) if facts["nic"] else None,
        }
        told = {name: begin[name] for name in ("backend", "device", "torch")}
        if not sizes or len(begin["hosts"]) < 2:
            raise ValueError("nothing was measured")
        net = checked(Net, told | values)
        _ = net.law  # of times and sizes that a line can be laid through
        return net
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise NotARun(f"no readable measurement in {folder}", "measure one: perfdoctor net") from None


def latest(hosts: Sequence[str], place: Path | None = None) -> Net | None:
    """The newest measurement between ranks on exactly these hosts; None where there is none.

    It is looked for where measurements are kept, or in `place`.
    """
    places = [place] if place is not None else directory.places(kind=KIND)
    folders = [candidate for each in places for candidate in each.glob("*") if (candidate / FILE).is_file()]
    for folder in sorted(folders, key=lambda folder: folder.name, reverse=True):
        with suppress(NotARun):
            net = read(folder)
            if set(net.hosts) == set(hosts) and net.law is not None:
                return net
    return None


def _exchange(line: Mapping[str, Any]) -> AllReduce:
    exchange = checked(AllReduce, line)
    if min(exchange.bytes, exchange.seconds, exchange.low_s, exchange.high_s) <= 0:
        raise ValueError("an exchange takes time")
    if not math.isfinite(2 * exchange.bytes / exchange.seconds):
        raise ValueError("an exchange is no quicker than can be told")
    return exchange
