"""Which job of several processes this one belongs to, as launchers tell it by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

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


def identity(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
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


def _numbers(told: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Any]:
    words = {field: told.get(name, "") for field, name in names.items()}
    return {field: int(word) for field, word in words.items() if word.isdigit()}


def _is_step(told: Mapping[str, str]) -> bool:
    step = told.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < SLURM_STEPS


def _master(told: Mapping[str, str]) -> str | None:
    address, port = told.get("MASTER_ADDR"), told.get("MASTER_PORT")
    return f"{address}:{port}" if address and port else None


def _id(told: Mapping[str, str], found: Mapping[str, Any], master: str | None, host: str) -> str | None:
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
