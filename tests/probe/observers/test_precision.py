import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    net = torch.nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(20):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(torch.randn(2, 8)).mean()
            {inside}
        {outside}
        opt.step()
"""


def settings(tmp_path, inside="pass", outside="pass"):
    records = watched(tmp_path, LOOP.format(inside=inside, outside=outside))
    return records.ranks[0].of("settings"), records.ranks[0].of("calls")


def test_autocast_in_the_forward_pass_alone_is_as_it_should_be(tmp_path):
    seen, calls = settings(tmp_path, outside="loss.backward()")
    assert [event["autocast_in_backward"] for event in seen] == [None]  # written once: nothing changes
    assert {look["autocast"] for look in calls} == {"bfloat16"}
    assert (seen[0]["default_dtype"], seen[0]["loss_dtype"], seen[0]["scaled"]) == (
        "float32",
        "bfloat16",
        False,
    )


def test_autocast_around_backward_is_seen_there(tmp_path):
    seen, _ = settings(tmp_path, inside="loss.backward()")
    assert seen[-1]["autocast_in_backward"] == "bfloat16"
    assert seen[-1]["at"]["line"] == 10


def test_a_scaled_loss_is_seen(tmp_path):
    seen, _ = settings(tmp_path, outside="scaler.scale(loss).backward()")
    assert seen[-1]["scaled"] is True


def test_a_loss_that_fsdps_own_scaler_scales_is_seen(tmp_path):
    pytest.importorskip("torch.distributed.fsdp.sharded_grad_scaler")
    script = LOOP.format(inside="pass", outside="scaler.scale(loss).backward()")
    own = """
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    scaler = ShardedGradScaler("cpu", process_group=None)
    for step"""
    records = watched(tmp_path, script.replace("\n    for step", own))
    assert records.ranks[0].of("settings")[-1]["scaled"] is True
