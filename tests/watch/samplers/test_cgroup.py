"""Control group limits, read from trees of files such as the kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.watch.samplers.cgroup import (
    CgroupLimits,
    count_cpus,
    limits,
    memory,
    memory_kills,
    memory_left_bytes,
)

V2_MOUNT = "29 23 0:26 {shown} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_CPU = "33 32 0:30 {shown} /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "35 32 0:32 {shown} /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory\n"
V1_CPUSET = "34 32 0:31 {shown} /sys/fs/cgroup/cpuset rw,nosuid shared:10 - cgroup cgroup rw,cpuset\n"
ROOT_MOUNT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


def tree(root: Path, cgroup: str, mounts: str, files: dict[str, str]) -> Path:
    """A file system below `root` with this process's groups, the mounts and the limit files."""
    proc = root / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(ROOT_MOUNT + mounts)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.shows("container")
def test_a_quota_of_version_2_is_cores(tmp_path: Path) -> None:
    files = {"job/cpu.max": "250000 100000\n", "job/cpuset.cpus.effective": "0-3,8\n"}
    root = tree(tmp_path, "0::/job\n", V2_MOUNT.format(shown="/"), files)
    assert limits(root=root) == CgroupLimits(quota_cores=2.5, cpuset_cores=5)


def test_no_quota_is_no_limit(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/job\n", V2_MOUNT.format(shown="/"), {"job/cpu.max": "max 100000\n"})
    assert limits(root=root) == CgroupLimits(None, None)


def test_the_tightest_of_nested_quotas_counts(tmp_path: Path) -> None:
    files = {
        "slice/cpu.max": "150000 100000\n",
        "slice/pod/cpu.max": "400000 100000\n",
        "slice/pod/inner/cpu.max": "max 100000\n",
    }
    root = tree(tmp_path, "0::/slice/pod/inner\n", V2_MOUNT.format(shown="/"), files)
    assert limits(root=root).quota_cores == 1.5


def test_the_quota_at_the_mount_itself_is_seen_in_a_container(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/\n", V2_MOUNT.format(shown="/"), {"cpu.max": "50000 100000\n"})
    assert limits(root=root).quota_cores == 0.5


@pytest.mark.shows("container")
def test_a_container_that_sees_host_paths_finds_its_group_at_the_mount(tmp_path: Path) -> None:
    mounts = V1_CPU.format(shown="/docker/abc")
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}
    root = tree(tmp_path, "4:cpu,cpuacct:/docker/abc\n", mounts, files)
    assert limits(root=root).quota_cores == 3.0


def test_a_group_outside_of_what_is_mounted_falls_back_to_the_mount(tmp_path: Path) -> None:
    mounts = V2_MOUNT.format(shown="/docker/abc")
    root = tree(tmp_path, "0::/../elsewhere\n", mounts, {"cpu.max": "100000 100000\n"})
    assert limits(root=root).quota_cores == 1.0


@pytest.mark.shows("container")
def test_quota_and_cpuset_of_version_1_come_from_their_own_hierarchies(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/a/b/cpu.cfs_quota_us": "75000\n",
        "cpu,cpuacct/a/b/cpu.cfs_period_us": "50000\n",
        "cpuset/c/cpuset.effective_cpus": "2,4-5\n",
        "cpuset/c/cpuset.cpus": "0-63\n",
    }
    groups = "5:cpu,cpuacct:/a/b\n6:cpuset:/c\n1:name=systemd:/x\n0::/\n"
    root = tree(tmp_path, groups, V1_CPU.format(shown="/") + V1_CPUSET.format(shown="/"), files)
    assert limits(root=root) == CgroupLimits(1.5, 3)


def test_a_mount_point_with_a_space_is_found(tmp_path: Path) -> None:
    mounts = V2_MOUNT.format(shown="/").replace("/sys/fs/cgroup ", "/sys/fs/cgroup/with\\040space ")
    root = tree(tmp_path, "0::/\n", mounts, {"with space/cpu.max": "200000 100000\n"})
    assert limits(root=root).quota_cores == 2.0


def test_nothing_readable_is_no_limit(tmp_path: Path) -> None:
    assert limits(root=tmp_path) == CgroupLimits(None, None)
    assert limits(pid=1, root=tmp_path) == CgroupLimits(None, None)


@pytest.mark.parametrize("text", ["", "\n", "x", "0-", "-1", "1-x", "0 100000"])
def test_a_list_that_is_none_counts_no_cpus(text: str) -> None:
    assert count_cpus(text) == 0


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_kernels_cpu_lists_are_counted_exactly(cpus: set[int]) -> None:
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    text = ",".join("-".join(map(str, part)) for part in parts)
    assert count_cpus(text + "\n") == len(cpus)


@pytest.mark.shows("container")
@given(st.text(max_size=200), st.text(max_size=200))
def test_alien_files_never_raise(cgroup: str, mounts: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        proc = Path(folder) / "proc" / "self"
        proc.mkdir(parents=True)
        (proc / "cgroup").write_text(cgroup, errors="replace")
        (proc / "mountinfo").write_text(mounts, errors="replace")
        assert limits(root=Path(folder)) == CgroupLimits(None, None)


@pytest.mark.shows("container")
def test_memory_that_a_limit_leaves_counts_pages_that_can_be_dropped(tmp_path: Path) -> None:
    files = {
        "slice/memory.max": "1000\n",
        "slice/memory.current": "900\n",
        "slice/memory.stat": "anon 700\ninactive_file 150\n",
        "slice/job/memory.max": "max\n",
        "slice/job/memory.current": "500\n",
    }
    root = tree(tmp_path, "0::/slice/job\n", V2_MOUNT.format(shown="/"), files)
    assert memory_left_bytes(root=root) == 250
    assert memory(root=root) == (1000, 250)


@pytest.mark.shows("container")
def test_in_version_one_pages_of_the_groups_below_count(tmp_path: Path) -> None:
    files = {
        "memory/job/memory.limit_in_bytes": "1000\n",
        "memory/job/memory.usage_in_bytes": "900\n",
        "memory/job/memory.stat": "inactive_file 0\ntotal_rss 700\ntotal_inactive_file 150\n",
    }
    root = tree(tmp_path, "5:memory:/job\n", V1_MEMORY.format(shown="/"), files)
    assert memory_left_bytes(root=root) == 250


@pytest.mark.shows("killed")
@pytest.mark.parametrize("file", ["job/memory.events", "job/memory.oom_control"])
def test_what_was_killed_for_want_of_memory_is_counted_in_ones_own_group(tmp_path: Path, file: str) -> None:
    files = {file: "oom 9\noom_kill 2\noom_group_kill 1\n", "memory.events": "oom_kill 40\n"}
    root = tree(tmp_path, "0::/job\n", V2_MOUNT.format(shown="/"), files)
    assert memory_kills(root=root) == 2
    (root / "sys/fs/cgroup" / file).unlink()
    (root / "sys/fs/cgroup/memory.events").write_text("oom_kill many\n")
    assert memory_kills(root=root) is None
    (root / "proc/vmstat").write_text("pgfault 7\noom_kill 5\n")
    assert memory_kills(root=root) == 5


def test_no_limit_on_memory_leaves_it_to_the_machine(tmp_path: Path) -> None:
    files = {"memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "500\n"}
    root = tree(tmp_path, "0::/\n", V2_MOUNT.format(shown="/"), files)
    assert memory_left_bytes(root=root) is None
