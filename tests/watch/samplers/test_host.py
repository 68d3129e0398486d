"""The host sampler, on real processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import orjson
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.watch.samplers import host
from perfdoctor.watch.samplers.host import HostSampler, interval_s, read_maps, usable_cores
from perfdoctor.watch.samplers.processes import ProcessTree
from perfdoctor.wire.core_list import core_list
from tests.support.processes import BUSY, FORKING, python, steps_file, wait_for
from tests.watch.samplers.test_cgroup import V2_MOUNT, tree

pytestmark = pytest.mark.process


def test_usable_cores_are_those_of_the_affinity() -> None:
    cores, limited_by = usable_cores()
    assert cores <= len(os.sched_getaffinity(0))
    assert limited_by in ("machine", "cpuset", "affinity", "cgroup quota")


def test_a_quota_below_everything_else_is_the_limit(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/\n", V2_MOUNT.format(shown="/"), {"cpu.max": "50000 100000\n"})
    assert usable_cores(root=root) == (0.5, "cgroup quota")


def test_a_limit_as_large_as_the_machine_limits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"cpu.max": "400000 100000\n", "cpuset.cpus.effective": "0-3\n"}
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    root = tree(tmp_path, "0::/\n", V2_MOUNT.format(shown="/"), files)
    assert usable_cores(root=root) == (4.0, "machine")


def test_a_cpuset_is_named_although_the_affinity_mirrors_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    root = tree(tmp_path, "0::/\n", V2_MOUNT.format(shown="/"), {"cpuset.cpus.effective": "0-2\n"})
    assert usable_cores(root=root) == (3.0, "cpuset")
    assert usable_cores(root=tmp_path / "nowhere") == (3.0, "affinity")


def test_ranks_that_bind_themselves_have_the_cores_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8 * pid, 8 * pid + 8)))
    monkeypatch.setattr(host, "_bound_threads", lambda _: [])
    assert usable_cores(1, Path("/nowhere"), [1, 2, 3]) == (24.0, "affinity")


def test_threads_that_openmp_binds_have_the_cores_of_all(tmp_path: Path) -> None:
    bound = """
        import os, threading, time
        cores = sorted(os.sched_getaffinity(0))
        started = threading.Event()
        def pool():
            os.sched_setaffinity(threading.get_native_id(), cores[1:])
            started.set()
            time.sleep(60)
        threading.Thread(target=pool, daemon=True).start()
        started.wait()
        os.sched_setaffinity(os.getpid(), cores[:1])
        print("ready", flush=True)
        time.sleep(60)
    """
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        pytest.skip("needs two cores")
    for variables, usable in (({"OMP_PROC_BIND": "true"}, cores), ({}, 1)):
        script = [sys.executable, "-c", textwrap.dedent(bound)]
        environment = {**os.environ, **variables}
        with subprocess.Popen(script, stdout=subprocess.PIPE, env=environment) as process:
            process.stdout.readline()
            found = usable_cores(process.pid, tmp_path)
            process.kill()
        assert found[0] == usable


def test_the_cpu_of_a_busy_process_grows(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        sampler = HostSampler(tmp_path, ProcessTree(tmp_path, target.pid))
        first = sampler.sample(time.monotonic())
        wait_for(lambda: psutil.Process(target.pid).cpu_times().user > first["procs"][0]["cpu_s"] + 0.3)
        second = sampler.sample(time.monotonic())
    process = second["procs"][0]
    assert process["role"] == "main"
    assert process["cpu_s"] > first["procs"][0]["cpu_s"]
    assert process["rss_bytes"] > 1_000_000
    assert process["threads"] == 1
    assert process["cores"] == core_list(os.sched_getaffinity(0))
    assert first["interval_s"] is None
    assert first["machine_busy_cores"] is None
    assert second["machine_busy_cores"] > 0
    assert second["memory"]["total_bytes"] > second["memory"]["available_bytes"] > 0


def test_workers_are_told_from_the_training_process(tmp_path: Path) -> None:
    with python(tmp_path, FORKING.format(method="fork")) as target:
        steps_file(tmp_path, target.pid)
        tree_ = ProcessTree(tmp_path, target.pid)
        wait_for(
            lambda: [member.role for member in tree_.look(time.monotonic())] == ["main", "worker", "worker"]
        )
        line = HostSampler(tmp_path, tree_).sample(time.monotonic())
    assert [process["role"] for process in line["procs"]] == ["main", "worker", "worker"]


def test_a_process_that_ends_between_look_and_reading_is_left_out(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        tree_ = ProcessTree(tmp_path, target.pid)
        assert len(tree_.look(5.0)) == 1
        target.kill()
        target.wait()
        assert HostSampler(tmp_path, tree_).sample(5.0)["procs"] == []


def test_private_and_shared_memory_are_unknown_at_first_and_then_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with python(tmp_path, BUSY) as target:
        wait_for(lambda: psutil.Process(target.pid).memory_info().rss > 5_000_000)
        sampler = HostSampler(tmp_path, ProcessTree(tmp_path, target.pid))
        young = sampler.sample(1.0)["procs"][0]
        assert (young["private_bytes"], young["shared_bytes"]) == (None, None)
        monkeypatch.setattr(host, "SETTLED_S", 0.0)
        settled = sampler.sample(2.0)["procs"][0]
        assert settled["private_bytes"] > 100_000
        monkeypatch.setattr(host, "read_maps", lambda _: pytest.fail("asked again too soon"))
        assert sampler.sample(3.0)["procs"][0]["private_bytes"] == settled["private_bytes"]


@pytest.mark.shows("container")
def test_maps_that_cannot_be_read_are_unknown_and_not_zero(tmp_path: Path) -> None:
    assert read_maps(tmp_path / "missing") == (None, None, None)
    broken = tmp_path / "smaps_rollup"
    broken.write_text("00400000-7fff [rollup]\nRss: 12 kB\n")
    assert read_maps(broken) == (None, None, None)
    broken.write_text("Private_Clean: many kB\n")
    assert read_maps(broken) == (None, None, None)


def test_private_and_shared_add_up_all_kinds_of_pages(tmp_path: Path) -> None:
    path = tmp_path / "smaps_rollup"
    lines = ["Shared_Clean: 1 kB", "Shared_Dirty: 2 kB", "Private_Clean: 4 kB", "Private_Dirty: 8 kB"]
    path.write_text("\n".join([*lines, "Shared_Hugetlb: 16 kB", "Private_Hugetlb: 32 kB", "Pss: 9 kB"]))
    assert read_maps(path) == (44 * 1024, 19 * 1024, 9 * 1024)


SHARING = """
import os, sys
held = bytearray(64 << 20)
held[::4096] = b"x" * len(held[::4096])
sys.stdin.readline()
for _ in range(2):
    if os.fork() == 0:
        break
sys.stdin.readline()
"""


def test_what_processes_share_counts_once_whenever_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "SETTLED_S", 0.0)
    target = subprocess.Popen([sys.executable, "-c", SHARING], stdin=subprocess.PIPE)
    assert target.stdin is not None
    tree_ = ProcessTree(tmp_path, target.pid)
    sampler = HostSampler(tmp_path, tree_)
    with target:
        wait_for(lambda: psutil.Process(target.pid).memory_info().rss > 64 << 20)
        alone = sampler.sample(time.monotonic())
        target.stdin.write(b"\n")
        target.stdin.flush()
        wait_for(lambda: len(tree_.look(time.monotonic())) == 3)
        wait_for(
            lambda: None not in [each["pss_bytes"] for each in sampler.sample(time.monotonic())["procs"]]
        )
        shared = sampler.sample(time.monotonic())
        target.kill()
    (before,) = alone["procs"]
    assert sum(each["pss_bytes"] for each in shared["procs"]) < before["pss_bytes"] + (32 << 20)
    assert sum(each["rss_bytes"] for each in shared["procs"]) > 3 * (64 << 20)


@pytest.mark.shows("container")
def test_disk_bytes_that_the_system_does_not_tell_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: object) -> None:
        raise psutil.AccessDenied

    with python(tmp_path, BUSY) as target:
        sampler = HostSampler(tmp_path, ProcessTree(tmp_path, target.pid))
        monkeypatch.setattr(psutil.Process, "io_counters", denied)
        process = sampler.sample(time.monotonic())["procs"][0]
    assert (process["read_bytes"], process["written_bytes"]) == (None, None)


def test_the_clock_is_the_mean_of_the_cores_that_tell(tmp_path: Path) -> None:
    assert host.clock_hz(tmp_path) is None
    for core, khz in enumerate(["3000000", "2000000", "broken"]):
        (tmp_path / f"cpu{core}" / "cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq").write_text(f"{khz}\n")
    assert host.clock_hz(tmp_path) == 2.5e9


def test_without_interfaces_or_shared_memory_they_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: {})
    monkeypatch.setattr(host, "SHARED_MEMORY", str(tmp_path / "missing"))
    line = HostSampler(tmp_path, ProcessTree(tmp_path, os.getpid())).sample(1.0)
    assert line["net"] is None
    assert line["shm"] is None


def test_lines_are_written_when_due_and_can_be_read(tmp_path: Path) -> None:
    sampler = HostSampler(tmp_path, ProcessTree(tmp_path, os.getpid()), own_cpu_s=lambda: 1000.0)
    begin = time.monotonic()
    assert [sampler.tick(begin + offset) for offset in (0.1, 0.2, 100.0, 100.1)] == [True, False, True, False]
    lines = [orjson.loads(line) for line in (tmp_path / "host.jsonl").read_bytes().splitlines()]
    assert len(lines) == 2
    assert lines[1]["interval_s"] == pytest.approx(99.9)
    assert lines[1]["perfdoctor_cpu_s"] > 1000


def lines_after(hours: float) -> int:
    elapsed, lines = 0.0, 0
    while elapsed < hours * 3600:
        elapsed += interval_s(elapsed, cost_s=0.002)
        lines += 1
    return lines


@pytest.mark.shows("long-and-many")
def test_an_hour_and_ten_hours_of_lines_are_few() -> None:
    longest_line_of_ten_processes_bytes = 2800
    assert lines_after(1) * longest_line_of_ten_processes_bytes < 5_000_000
    assert lines_after(10) < 2.5 * lines_after(1)


@pytest.mark.shows("cost")
@given(st.floats(0, 1e7), st.floats(0, 10))
def test_the_sampler_never_costs_more_than_its_share_nor_waits_too_long(
    elapsed_s: float, cost_s: float
) -> None:
    interval = interval_s(elapsed_s, cost_s)
    assert 1.0 <= interval <= host.LONGEST_INTERVAL_S
    if interval < host.LONGEST_INTERVAL_S:
        assert cost_s <= host.COST_SHARE * interval * (1 + 1e-9)
    assert math.isfinite(interval)


class Times(NamedTuple):
    """CPU seconds of a core."""

    user: float
    idle: float


def test_only_cores_that_the_run_may_use_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([[Times(0.0, 5.0), Times(0.0, 5.0)], [Times(1e9, 5.0), Times(0.0, 5.0)]])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: next(looks) if percpu else Times(1e9, 5.0))
    busy = host._BusyCores()
    assert busy.of(frozenset((1,))) is None
    assert busy.of(frozenset((1,))) == 0.0  # a neighbour keeps the other one busy
    assert busy.of(frozenset((0, 1))) is None  # the cores are others than before


def test_all_processes_of_a_machine_with_eight_devices_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, workers = 8, 16
    members = [SimpleNamespace(pid=pid, role="other", process=None) for pid in range(ranks * (1 + workers))]
    tree = SimpleNamespace(look=lambda now_s: members)
    monkeypatch.setattr(HostSampler, "_reading", lambda self, member, now_s: {"pid": member.pid})
    monkeypatch.setattr(host._Maps, "choose", lambda self, processes, now_s: None)
    line = HostSampler(tmp_path, tree).sample(1.0)
    assert (len(line["procs"]), line["left_out"]) == (len(members), 0)


def test_hyper_threads_of_a_core_are_one_whole_core(tmp_path: Path) -> None:
    for core, together in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{together}\n")
    assert host.whole_cores(range(4), tmp_path) == 2
    assert host.whole_cores((0, 2), tmp_path) == 1
    assert host.whole_cores((0, 4), tmp_path) is None
    assert host.whole_cores((), tmp_path) is None


def test_of_many_processes_those_that_have_waited_longest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: dict[int, int] = {}
    processes = [SimpleNamespace(pid=pid, create_time=lambda: 0.0) for pid in range(9)]

    def read(path: Path) -> tuple[int, int]:
        reads[int(path.parent.name)] = reads.get(int(path.parent.name), 0) + 1
        return 1, 1

    monkeypatch.setattr(host, "read_maps", read)
    maps = host._Maps()
    for sample in range(18):  # a minute apart, as in a long run
        maps.choose(processes, 60.0 * sample)
        for process in processes:
            maps.of(process, 60.0 * sample)
    assert sorted(reads) == list(range(9))
    assert min(reads.values()) >= 6  # four at a time: each at least every third
