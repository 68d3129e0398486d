import os

import pytest

from perfdoctor.wire import rank_identity
from tests.support.watched import watched

pytestmark = pytest.mark.process

HOST = os.uname().nodename
TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_RUN_ID": "night",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}
STEP = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "3",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
}


def test_a_process_that_nobody_started_as_a_rank_has_a_host_only():
    assert rank_identity.identity({}) == {"host": HOST}


def test_torchrun_tells_everything():
    assert rank_identity.identity(TORCHRUN) == {
        "rank": 5,
        "world": 8,
        "local_rank": 1,
        "local_world": 4,
        "node_rank": 1,
        "attempt": 2,
        "master": "node0:29500",
        "id": "night at node0:29500",
        "host": HOST,
    }


def test_torchrun_inside_a_task_of_slurm_counts_more_than_the_task():
    both = rank_identity.identity({**STEP, **TORCHRUN})
    assert (both["rank"], both["world"], both["node_rank"], both["id"]) == (5, 8, 1, "night at node0:29500")


def test_tasks_of_slurm_are_ranks_of_their_step():
    assert rank_identity.identity(STEP) == {
        "rank": 2,
        "world": 4,
        "local_rank": 0,
        "node_rank": 1,
        "id": "slurm 12.3",
        "host": HOST,
    }


def test_a_rank_that_a_script_took_from_slurm_gets_its_node_from_there_too():
    found = rank_identity.identity(
        {**STEP, "RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "n", "MASTER_PORT": "1"}
    )
    assert (found["rank"], found["node_rank"], found["master"], found["id"]) == (2, 1, "n:1", "slurm 12.3")


def test_a_shell_inside_an_allocation_is_no_rank():
    assert rank_identity.identity({**STEP, "SLURM_STEP_ID": "4294967290"}) == {"host": HOST}
    assert rank_identity.identity(
        {name: value for name, value in STEP.items() if name != "SLURM_STEP_ID"}
    ) == {"host": HOST}


def test_mpi_tells_the_rank():
    told = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    found = rank_identity.identity({**told, "MASTER_ADDR": "n", "MASTER_PORT": "1"})
    assert (found["rank"], found["world"], found["local_rank"], found["id"]) == (1, 2, 1, "n:1")


@pytest.mark.parametrize(
    "names", [("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")]
)
def test_launchers_that_speak_pmi_tell_the_rank_and_its_place_on_the_host(names):
    found = rank_identity.identity({"PMI_RANK": "5", "PMI_SIZE": "8", **dict(zip(names, "14", strict=True))})
    assert found == {"rank": 5, "world": 8, "local_rank": 1, "local_world": 4, "host": HOST}


def test_pmix_tells_the_rank_and_the_job():
    found = rank_identity.identity({"PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-7@1"})
    assert found == {"rank": 3, "id": "prterun-7@1", "host": HOST}


def test_torchrun_inside_a_process_of_mpi_counts_more_than_that():
    found = rank_identity.identity({**TORCHRUN, "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"})
    assert (found["rank"], found["world"], found["local_rank"]) == (5, 8, 1)


def test_a_master_that_each_host_calls_its_own_is_told_apart_by_the_host():
    found = rank_identity.identity(
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    )
    assert found["id"] == f"localhost:1 on {HOST}"


def test_values_that_are_no_numbers_are_left_out():
    assert rank_identity.identity({"RANK": "one", "WORLD_SIZE": "-2"}) == {"host": HOST}


def test_the_boot_line_tells_the_job_and_so_does_the_group(tmp_path):
    pytest.importorskip("torch")
    records = watched(
        tmp_path,
        """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
    torch.nn.Linear(2, 2)(torch.ones(1, 2)).mean().backward()
    """,
        RANK="0",
        LOCAL_RANK="0",
    )
    assert records.boots[0]["job"] == {"rank": 0, "local_rank": 0, "host": HOST}
    (group,) = records.ranks[0].of("process_group")
    assert group["job"] == {"rank": 0, "world": 1, "local_rank": 0, "host": HOST}
