"""Two gloo ranks under torchrun, watched with one command: who is late and why, how ranks end, and where they hang.

What is planted is told by the script itself, measured with its own clock (tests/scripts/planted.py); sample scripts
start their two ranks themselves.
bench/ranks.py holds the promise of 5 % on a quiet machine; here the bounds leave room for a busy one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest

from perfdoctor.runs import directory, records
from tests.support import slow_link
from tests.support.launching import environment, free_port
from tests.support.paths import SAMPLES, SCRIPTS

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.clock,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks take two cores"),
]

Json = dict[str, Any]
PERFDOCTOR = [sys.executable, "-m", "perfdoctor"]
PLANTED = str(SCRIPTS / "planted.py")
TIMEOUT_S = 120
NEAR = 0.15  # of a delay: backward passes differ too, on a busy machine
TOLD = "told: "
LOOK_S, BUSY_PERCENT = 1.0, 40.0  # one of two cores is 50
DELAY_MS = "30"
PLANTED_AT = {"data": "time.sleep(self.seconds)", "compute": "work @ work"}
HUNG_S = 90  # longest time until all ranks are where they hang
HANGS_S = 3  # that they are left there
BUSY = "import zlib, os\nblock = os.urandom(1 << 20)\nwhile True: zlib.compress(block, 9)"


@dataclass(frozen=True)
class Seen:
    """How a watched command ended, what it said, and the report of its run."""

    status: int
    stdout: str
    stderr: str
    report: Json

    @property
    def ranks(self) -> Json:
        return dict(self.report["ranks"])

    @property
    def late(self) -> Json:
        assert self.ranks["late"] is not None, self.ranks["notes"]
        return dict(self.ranks["late"])

    @property
    def first(self) -> str | None:
        return next((finding["id"] for finding in self.report["findings"]), None)

    @property
    def words(self) -> str:
        """All sentences of the report."""
        kept = (self.report["notes"], self.ranks["notes"], self.report["bottleneck"]["because"])
        return "\n".join(sentence for sentences in kept for sentence in sentences)

    def told(self) -> dict[int, Json]:
        """What each rank of the planted script says of itself."""
        lines = (line for line in self.stdout.splitlines() if line.startswith(TOLD))
        return {own["rank"]: own for own in (json.loads(line.removeprefix(TOLD)) for line in lines)}

    def assert_late_by_what_was_planted(self) -> None:
        """What is said lies between the delay and what came of it: beside others, a rank that works falls behind."""
        own, other = (self.told()[rank] for rank in (self.late["rank"], 1 - self.late["rank"]))
        planted_s = own["planted_s"] / len(own["arrivals"])
        came_s = fmean(
            late - early for late, early in zip(own["arrivals"][1:], other["arrivals"][1:], strict=True)
        )
        low, high = sorted((planted_s, came_s))
        assert low * (1 - NEAR) <= self.late["behind_s"] <= high * (1 + NEAR), (planted_s, came_s, self.late)


def quiet() -> None:
    """Skip where others have the cores: ranks are late because of them, and so is what they exchange."""
    if psutil.cpu_percent(LOOK_S) > BUSY_PERCENT:
        pytest.skip("other programs have the cores")


def variables(**more: str) -> dict[str, str]:
    """The environment of a user who has this interpreter's folder on the path, as torchrun expects."""
    folder = str(Path(sys.executable).parent)
    return environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}", **more)


def torchrun(script: str, *words: str, processes: int = 2) -> list[str]:
    return ["torchrun", "--nproc-per-node", str(processes), script, *words]


def watched(folder: Path, command: Sequence[str], before: Sequence[str] = (), **more: str) -> Seen:
    """Run a command to its end under `perfdoctor run`, and read its report."""
    line = [*before, *PERFDOCTOR, "run", "-q", "--out", str(folder / "runs"), "--", *command]
    done = subprocess.run(
        line,
        cwd=folder,
        env=variables(**more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Seen(done.returncode, done.stdout, done.stderr, report(folder / "runs"))


def report(runs: Path) -> Json:
    line = [*PERFDOCTOR, "report", "--json", str(directory.latest(runs))]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads(shown.stdout))


# ---------------------------------------------------------------- who is late, and why


@pytest.mark.parametrize(("kind", "late", "phase"), [("data", 1, "data_wait"), ("compute", 0, "forward")])
def test_names_the_late_rank_its_cause_and_by_how_much(
    kind: str, late: int, phase: str, tmp_path: Path
) -> None:
    words = ("--late", str(late), "--kind", kind, "--delay-ms", DELAY_MS)
    seen = watched(tmp_path, torchrun(PLANTED, *words))
    assert seen.status == 0, seen.stderr
    found = seen.late
    assert (found["rank"], found["cause"], found["phase"]) == (late, kind, phase), found
    seen.assert_late_by_what_was_planted()
    assert found["last"] > 0.8
    assert found["caused"] > 0.8
    assert (seen.report["bottleneck"]["verdict"], seen.first) == (kind, "straggler-rank")
    assert [at["text"] for at in seen.report["findings"][0]["at"]] == [PLANTED_AT[kind]]
    punctual, own = seen.ranks["each"][1 - late], seen.ranks["each"][late]
    assert punctual["waiting_s"] > 10 * own["waiting_s"]


def test_a_delay_now_and_then_is_told_per_step(tmp_path: Path) -> None:
    words = ("--late", "1", "--kind", "host", "--delay-ms", "80", "--every", "4", "--steps", "120")
    seen = watched(tmp_path, torchrun(PLANTED, *words))
    assert (seen.late["rank"], seen.late["cause"]) == (1, "host")
    seen.assert_late_by_what_was_planted()


def test_a_late_rank_is_waited_for_in_its_own_group(tmp_path: Path) -> None:
    words = ("--late", "2", "--kind", "host", "--delay-ms", "60", "--team", "2")
    seen = watched(tmp_path, torchrun(PLANTED, *words, processes=4))
    assert seen.status == 0, seen.stderr
    assert (seen.late["rank"], seen.late["cause"]) == (2, "host"), seen.late
    each = seen.ranks["each"]
    assert each[3]["waiting_s"] > 10 * each[2]["waiting_s"]
    assert each[3]["waiting_s"] > 3 * max(rank["waiting_s"] for rank in each[:2])


@contextmanager
def neighbour(core: int) -> Iterator[None]:
    """Somebody else's process, which nothing of the run has started, keeps a core busy."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        os.sched_setaffinity(process.pid, {core})
        yield
    finally:
        process.kill()
        process.wait()


def test_a_neighbour_on_a_ranks_core_is_told_from_more_work(tmp_path: Path) -> None:
    quiet()
    core = sorted(os.sched_getaffinity(0))[1]
    words = ("--pin", "--width", "512", "--depth", "8", "--steps", "200")
    with neighbour(core):
        seen = watched(tmp_path, torchrun(PLANTED, *words))
    assert (seen.late["rank"], seen.late["cause"]) == (1, "compute"), seen.late
    assert "others have its cores" in seen.late["why"]
    alone, shared = (rank["delay"] for rank in seen.ranks["each"])
    assert shared > 2 * alone


def test_ranks_alike_blame_nobody(tmp_path: Path) -> None:
    quiet()
    seen = watched(tmp_path, [str(SAMPLES / "healthy_two_ranks.py"), "--epochs", "2"])
    assert seen.status == 0, seen.stderr
    assert [rank["rank"] for rank in seen.ranks["each"]] == [0, 1]
    assert seen.ranks["missing"] == []
    gains = {found["id"]: found["gain"]["likely"] for found in seen.report["findings"]}
    assert all(gain < 1.05 for gain in gains.values()), gains  # an exchange takes its time on any machine
    assert "straggler-rank" not in gains
    assert seen.report["bottleneck"]["verdict"] in ("healthy", "inconclusive")


# ---------------------------------------------------------------- the link


def test_an_even_slow_down_is_the_link_and_its_rate_is_told(tmp_path: Path) -> None:
    megabits = 200.0
    words = ("--width", "512", "--depth", "4", "--steps", "60")
    command = torchrun(PLANTED, *words)
    seen = watched(tmp_path, command, slow_link.words(megabits), **slow_link.ENVIRONMENT)
    assert seen.status == 0, seen.stderr
    exchange = seen.ranks["exchange"]
    assert seen.report["bottleneck"]["verdict"] == "network"
    assert seen.first == "exposed-communication"
    assert seen.ranks["late"] is None, seen.late
    assert exchange["waiting_s"] < 0.1 * exchange["exposed_s"]
    # Both ranks send all of it once, over one device that carries one direction at a time.
    assert exchange["bus_bytes_per_s"] == pytest.approx(megabits * 1e6 / 8 / 2, rel=0.3)


def test_a_late_rank_on_a_slow_link_is_late_by_as_much(tmp_path: Path) -> None:
    words = ("--late", "1", "--kind", "host", "--delay-ms", "60", "--width", "256", "--depth", "4")
    seen = watched(tmp_path, torchrun(PLANTED, *words), slow_link.words(200), **slow_link.ENVIRONMENT)
    assert (seen.late["rank"], seen.late["cause"]) == (1, "host"), seen.late
    seen.assert_late_by_what_was_planted()


def test_tiny_buckets_are_found_and_counted(tmp_path: Path) -> None:
    quiet()
    script = SAMPLES / "exposed_communication_tiny_buckets.py"
    seen = watched(tmp_path, [str(script), "--epochs", "2"])
    assert seen.report["bottleneck"]["verdict"] == "network"
    assert seen.first == "exposed-communication"
    assert seen.ranks["exchange"]["buckets"] > 50
    assert "--ddp-bucket-mb" in (seen.report["findings"][0]["tweak"] or "")


def test_gathers_of_a_sharded_model_are_told_from_its_reductions(tmp_path: Path) -> None:
    quiet()
    script = SAMPLES / "exposed_communication_fsdp.py"
    seen = watched(tmp_path, [str(script), "--steps", "60"])
    assert seen.report["bottleneck"]["verdict"] == "network"
    assert seen.first == "exposed-communication"
    kinds = seen.ranks["exchange"]["by_kind"]
    assert kinds["all_gather"]["calls_per_step"] > kinds["reduce_scatter"]["calls_per_step"] > 0


# ---------------------------------------------------------------- faults


@pytest.mark.shows("rank-dies")
@pytest.mark.parametrize(
    ("fault", "ended"), [("kill", "killed by signal 9"), ("exit", "exit code 7"), ("raise", "exit code 1")]
)
def test_the_first_failing_rank_and_its_own_code_are_told(fault: str, ended: str, tmp_path: Path) -> None:
    seen = watched(tmp_path, torchrun(PLANTED, "--fault", fault, "--late", "1"))
    assert seen.status == 1  # torchrun's own, whatever its ranks'
    assert seen.report["run"]["exit_code"] == 1
    guilty = seen.ranks["each"][1]
    assert ended in guilty["ended"]
    assert guilty["steps"] == pytest.approx(29, abs=1)
    assert "rank 1" in seen.words
    assert ended in seen.words


def test_ranks_of_unequal_step_counts_are_all_there(tmp_path: Path) -> None:
    seen = watched(tmp_path, torchrun(PLANTED, "--fewer", "30", "--steps", "80"))
    assert seen.status == 0, seen.stderr
    assert [rank["steps"] for rank in seen.ranks["each"]] == pytest.approx([80, 50], abs=1)
    assert seen.ranks["matched"] > 0


def test_a_restart_by_the_launcher_is_an_attempt_of_its_own(tmp_path: Path) -> None:
    words = ("--fault", "exit", "--once", str(tmp_path / "happened"))
    command = torchrun(PLANTED, *words)
    command[1:1] = ["--max-restarts", "1"]
    seen = watched(tmp_path, command)
    assert seen.status == 0, seen.stderr
    assert seen.ranks["attempt"] == 1
    assert "exit code 7" in seen.words
    assert [rank["steps"] for rank in seen.ranks["each"]] == pytest.approx([80, 80], abs=1)


def test_a_hang_that_is_interrupted_tells_where_each_rank_is(tmp_path: Path) -> None:
    at = 30
    command = torchrun(PLANTED, "--fault", "hang", "--late", "1", "--at", str(at))
    line = [*PERFDOCTOR, "run", "-q", "--out", str(tmp_path / "runs"), "--", *command]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            line, cwd=tmp_path, env=variables(), stdout=said, stderr=said, start_new_session=True
        )
        try:
            assert hangs(tmp_path / "runs", at - 1, process), (tmp_path / "said").read_text()
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
            process.wait(timeout=TIMEOUT_S)
        finally:
            end(process)
    waiting, absent = report(tmp_path / "runs")["ranks"]["each"]
    assert "all_reduce" in (waiting["inside"] or ""), waiting
    assert "all_reduce" not in (absent["inside"] or ""), absent


def hangs(runs: Path, steps: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether both ranks have come to the step in which they stay; waits for it."""
    deadline = time.monotonic() + HUNG_S
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(1)
        if not list(runs.glob("*/steps.rank1.bin")):
            continue
        made = [
            records.steps_made(rank.steps) for rank in records.read(directory.latest(runs)).ranks.values()
        ]
        if len(made) == 2 and min(made) >= steps:
            time.sleep(HANGS_S)
            return True
    return False


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all that it started: the ranks of torchrun have sessions of their own."""
    if process.poll() is None:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            with suppress(psutil.Error):
                each.kill()
        process.wait()


# ---------------------------------------------------------------- several nodes


@pytest.mark.shows("several-nodes")
def test_nodes_without_a_common_folder_are_joined_by_name(tmp_path: Path) -> None:
    """Two launchers, as on two hosts: each with its own perfdoctor, folder, and name of the host."""
    port = free_port()
    nodes = [start_node(tmp_path / f"node{number}", number, port) for number in range(2)]
    try:
        while any(node.poll() is None for node in nodes) and not any(node.returncode for node in nodes):
            time.sleep(0.1)  # a node that fails leaves the other one waiting
        assert [node.returncode for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            end(node)
    folders = [str(directory.latest(tmp_path / f"node{number}")) for number in range(2)]
    shown = subprocess.run(
        [*PERFDOCTOR, "report", "--json", *folders], capture_output=True, text=True, check=True
    )
    ranks = json.loads(shown.stdout)["ranks"]
    assert ranks["nodes"] == ["node0", "node1"]
    assert (ranks["world"], ranks["missing"]) == (2, [])
    assert (ranks["late"]["rank"], ranks["late"]["node"], ranks["late"]["cause"]) == (1, "node1", "data")


def start_node(folder: Path, number: int, port: str) -> subprocess.Popen[str]:
    folder.mkdir()
    nodes = [
        "--nnodes",
        "2",
        "--node-rank",
        str(number),
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        port,
    ]
    command = ["torchrun", *nodes, *torchrun(PLANTED, "--kind", "data", processes=1)[1:]]
    line = [*slow_link.named(f"node{number}"), *PERFDOCTOR, "run", "-q", "--out", str(folder), "--", *command]
    return subprocess.Popen(
        line, cwd=folder, env=variables(**slow_link.ENVIRONMENT), stdout=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
