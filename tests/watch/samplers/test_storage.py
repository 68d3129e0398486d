"""File systems told from trees of files such as the kernel shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfdoctor.watch.samplers.storage import Storage

MOUNTS = (
    "27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "39 27 0:49 / /data rw - autofs systemd-1 rw\n"
    "40 27 0:50 / /data rw - nfs4 server:/export rw\n"
    "41 27 0:51 / /data/fast rw - fuse.sshfs host: rw\n"
    "42 27 259:0 / /scratch rw - xfs /dev/nvme0n1 rw\n"
    "43 27 0:52 / /pool rw - btrfs /dev/sdb rw\n"
    "44 27 0:26 / /tmp rw - tmpfs tmpfs rw\n"
    "45 27 0:60 / /odd rw - zfs tank rw\n"
)
READ, WRITE = "0100000", "0100001"


def machine(root: Path, *files: str, flags: str = READ) -> Storage:
    """A machine where process 7 has these files open."""
    for number, name in enumerate(files):
        for folder in ("fd", "fdinfo"):
            (root / "proc/7" / folder).mkdir(parents=True, exist_ok=True)
        os.symlink(name, root / "proc/7/fd" / str(number))
        (root / "proc/7/fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t{flags}\n")
    (root / "proc/7/mountinfo").write_text(MOUNTS)
    disks = root / "sys/devices"
    for name, rotational in (("sda", 1), ("nvme0n1", 0), ("sdb", 1)):
        (disks / name / "queue").mkdir(parents=True)
        (disks / name / "queue/rotational").write_text(f"{rotational}\n")
    (disks / "sda/sda1").mkdir()
    for folder in ("sys/dev/block", "sys/class/block"):
        (root / folder).mkdir(parents=True)
    os.symlink(disks / "sda/sda1", root / "sys/dev/block/8:1")
    os.symlink(disks / "nvme0n1", root / "sys/dev/block/259:0")
    os.symlink(disks / "sdb", root / "sys/class/block/sdb")
    return Storage(root)


@pytest.mark.parametrize(
    ("file", "mount", "kind"),
    [
        ("/home/me/a.jpg", "/", "rotational"),
        ("/data/a.jpg", "/data", "network"),
        ("/data/fast/a.jpg", "/data/fast", "network"),
        ("/database/a.jpg", "/", "rotational"),
        ("/scratch/a.jpg", "/scratch", "solid"),
        ("/pool/a.jpg", "/pool", "rotational"),
        ("/tmp/a.jpg", "/tmp", "memory"),
        ("/odd/a.jpg", "/odd", "unknown"),
    ],
)
def test_a_file_is_on_the_innermost_mount_and_its_kind_is_told(
    tmp_path: Path, file: str, mount: str, kind: str
) -> None:
    (found,) = machine(tmp_path, file).in_use([7])
    assert (found["mount"], found["kind"], found["open"]) == (mount, kind, 1)


@pytest.mark.parametrize("file", ["socket:[9]", "/dev/null", "/proc/7/stat", "/data/gone (deleted)"])
def test_what_is_no_data_is_left_out(tmp_path: Path, file: str) -> None:
    assert machine(tmp_path, file).in_use([7]) == []


def test_files_that_are_only_written_are_left_out(tmp_path: Path) -> None:
    assert machine(tmp_path, "/data/log.txt", flags=WRITE).in_use([7]) == []


def test_a_process_that_ended_has_no_files_open(tmp_path: Path) -> None:
    assert machine(tmp_path, "/data/a.jpg").in_use([8]) == []


@pytest.mark.parametrize("folder", ["fd", "fdinfo"])
def test_a_file_that_is_closed_meanwhile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    storage = machine(tmp_path, "/data/closed.jpg", "/scratch/open.jpg")
    numbers = os.listdir(tmp_path / "proc/7/fd")
    monkeypatch.setattr(os, "listdir", lambda path: numbers)
    (tmp_path / "proc/7" / folder / "0").unlink()
    assert [use["mount"] for use in storage.in_use([7])] == ["/scratch"]


def test_a_file_that_is_really_open_is_found(tmp_path: Path) -> None:
    name = tmp_path / "data.bin"
    name.write_bytes(b"x")
    with open(name, "rb"):
        assert any(str(tmp_path).startswith(str(use["mount"])) for use in Storage().in_use([os.getpid()]))


def test_what_is_mounted_when_it_is_first_used_is_seen(tmp_path: Path) -> None:
    storage = machine(tmp_path, "/tmp/log", "/mnt/My Data/a.jpg")
    assert {found["mount"] for found in storage.in_use([7])} == {"/tmp", "/"}
    with open(tmp_path / "proc/7/mountinfo", "a") as table:
        table.write("99 1 0:50 / /mnt/My\\040Data rw - nfs4 server:/data rw\n")
    found = {found["mount"]: found["kind"] for found in storage.in_use([7])}
    assert found["/mnt/My Data"] == "network"
    (tmp_path / "proc/7/mountinfo").unlink()  # it ends
    assert {found["mount"] for found in storage.in_use([7])} == {"/tmp", "/mnt/My Data"}
