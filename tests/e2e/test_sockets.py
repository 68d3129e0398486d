"""perfdoctor opens no internet socket: not beside the script, not inside it, not in what it starts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launching import environment

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(600)]

STRACE = shutil.which("strace")
CALL = re.compile(r"\b(?:socket|connect|bind|listen|sendto|sendmsg)\(.*")

# Says, where the output of each process goes, which sockets Python code makes and which hosts it looks up.
HOOK = """
import sys
LOCAL = (1, 16, -1)  # AF_UNIX, AF_NETLINK, what a descriptor is found to be
def tell(event, given):
    if event == "socket.__new__" and given[1] not in LOCAL or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        sys.stderr.write(f"SOCKET {event} {given[1:]}\\n")
sys.addaudithook(tell)
"""
SCRIPT = """
import sys
import torch
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2000, 8)), 4, num_workers=1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if __name__ == "__main__":
    for (batch,) in data:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
"""
PERFDOCTOR = f"{HOOK}\nfrom perfdoctor.cli import main\nsys.exit(main())"
TRY = ("try", "--threads", "2", "--rounds", "3", "--steps", "20", "--seconds", "15", "--yes", "--")


def ran(folder: Path, *words: str) -> str:
    """What a command that has to end well printed, and what executions of a trial did."""
    variables = {"XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    logs = "".join(path.read_text() for path in folder.glob(".perfdoctor/trials/*/*.log"))
    return f"{done.stdout}{done.stderr}{logs}"


def internet_sockets(folder: Path, *words: str) -> list[str]:
    """The calls by which a command, or anything that it starts, makes or uses a socket of the internet."""
    log = folder / "calls"
    ran(folder, str(STRACE), "-f", "-qq", "-e", "trace=%network", "-o", str(log), *words)
    calls = [
        match[0] for line in log.read_text(errors="replace").splitlines() if (match := CALL.search(line))
    ]
    return [call for call in calls if re.search(r"AF_INET|AF_PACKET|sin6?_port", call)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "hooked.py").write_text(HOOK + SCRIPT)
    return tmp_path


@pytest.mark.shows("no-network", "sockets")
def test_python_code_of_perfdoctor_and_of_the_probe_makes_no_socket(folder: Path) -> None:
    for words in (("run", "hooked.py"), ("report",), ("runs",), (*TRY, "hooked.py"), ("report", "--trials")):
        assert "SOCKET" not in ran(folder, sys.executable, "-c", PERFDOCTOR, *words)


def test_in_a_trial_too_the_hook_sees_a_socket_that_the_script_makes(folder: Path) -> None:
    (folder / "hooked.py").write_text(f"{HOOK}\nimport socket\nsocket.socket().close()\n{SCRIPT}")
    seen = ran(folder, sys.executable, "-c", PERFDOCTOR, *TRY, "hooked.py")
    assert "SOCKET socket.__new__" in seen


@pytest.mark.shows("no-network", "sockets")
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize("verb", [("run",), TRY], ids=["run", "try"])
def test_the_system_is_asked_for_no_internet_socket(folder: Path, verb: tuple[str, ...]) -> None:
    perfdoctor = (sys.executable, "-m", "perfdoctor")
    bare = internet_sockets(folder, sys.executable, "train.py")
    assert internet_sockets(folder, *perfdoctor, *verb, "train.py") == bare == []
    shown = ("report",) if verb == ("run",) else ("report", "--trials")
    assert internet_sockets(folder, *perfdoctor, *shown) == []
