"""Which job of several processes this one belongs to, as launchers tell it, and which of its ranks failed."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from . import patch
from .imports import on_import

Args = Tuple[Any, ...]

TORCH = {
    "rank": "RANK",
    "world": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "local_world": "LOCAL_WORLD_SIZE",
    "node_rank": "GROUP_RANK",
    "attempt": "TORCHELASTIC_RESTART_COUNT",
}
OPEN_MPI = {
    "rank": "OMPI_COMM_WORLD_RANK",
    "world": "OMPI_COMM_WORLD_SIZE",
    "local_rank": "OMPI_COMM_WORLD_LOCAL_RANK",
    "local_world": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
MPICH = {  # and Intel MPI
    "rank": "PMI_RANK",
    "world": "PMI_SIZE",
    "local_rank": "MPI_LOCALRANKID",
    "local_world": "MPI_LOCALNRANKS",
}
CRAY = {
    "rank": "PMI_RANK",
    "world": "PMI_SIZE",
    "local_rank": "PMI_LOCAL_RANK",
    "local_world": "PMI_LOCAL_SIZE",
}
PMIX = {"rank": "PMIX_RANK"}
SLURM = {
    "rank": "SLURM_PROCID",
    "world": "SLURM_NTASKS",
    "local_rank": "SLURM_LOCALID",
    "node_rank": "SLURM_NODEID",
}
SLURM_STEPS = 0xFFFFFFF0  # a step with a higher number is a batch script or a shell: its tasks are no ranks
HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # names of a master that every host calls its own


def identity(environment: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
    """Rank, world, local_rank, local_world, node_rank, attempt, master, id, host; what nobody told is absent.

    `id` is the same text in every rank of a job, and in no other job that runs at the same time.
    """
    told = os.environ if environment is None else environment
    host = os.uname().nodename
    found = _numbers(told, TORCH)
    for names in (OPEN_MPI, MPICH, CRAY, PMIX, SLURM):
        more = _numbers(told, names)
        if names is SLURM and not _is_step(told):
            continue  # inside an allocation, and not started by it
        if "rank" in more and found.get("rank", more["rank"]) == more["rank"]:
            found = {**more, **found}
    master = _master(told)
    if master is not None and "rank" in found:
        found["master"] = master
    name = _id(told, found, master, host)
    return {**found, "host": host} if name is None else {**found, "id": name, "host": host}


def _numbers(told: Mapping[str, str], names: Mapping[str, str]) -> Dict[str, Any]:
    words = {field: told.get(name, "") for field, name in names.items()}
    return {field: int(word) for field, word in words.items() if word.isdigit()}


def _is_step(told: Mapping[str, str]) -> bool:
    step = told.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < SLURM_STEPS


def _master(told: Mapping[str, str]) -> Optional[str]:
    address, port = told.get("MASTER_ADDR"), told.get("MASTER_PORT")
    return f"{address}:{port}" if address and port else None


def _id(told: Mapping[str, str], found: Mapping[str, Any], master: Optional[str], host: str) -> Optional[str]:
    """A name that all ranks share: the elastic run's, else the scheduler's step, else where they meet."""
    if "rank" not in found:
        return None
    where = master
    if master is not None and master.rpartition(":")[0] in HERE:
        where = f"{master} on {host}"
    elastic = told.get("TORCHELASTIC_RUN_ID")
    if elastic and where:
        return f"{elastic} at {where}"
    if told.get("SLURM_JOB_ID") and _is_step(told):
        return f"slurm {told['SLURM_JOB_ID']}.{told['SLURM_STEP_ID']}"
    return where or told.get("PMIX_NAMESPACE")


def watch_failures(append: Callable[..., None]) -> None:
    """In the process that started ranks, write down each one that failed: the launcher exits 1 for any."""

    def failed(token: Any, args: Args, result: Any) -> None:
        failure = args[0]
        code = int(failure.exitcode)
        append(
            "rank_failed",
            file="agent.jsonl",
            local_rank=failure.local_rank,
            pid=failure.pid,
            exitcode=code,
            signal=-code if code < 0 else None,
        )

    def watch(module: Any) -> None:
        patch.wrap(module.ProcessFailure, "__post_init__", _always, failed, "rank_failed")

    on_import("torch.distributed.elastic.multiprocessing.errors", patch.guarded("rank_failed", watch))


def _always(args: Args, kwargs: Dict[str, Any]) -> bool:
    return True
