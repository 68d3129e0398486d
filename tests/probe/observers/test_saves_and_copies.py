from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.moments import Moments
from perfdoctor.probe.observers.saves_and_copies import SaveAndCopyHooks
from perfdoctor.probe.recorder import Recorder
from perfdoctor.wire.step_rows import HOST_TO_DEVICE, OTHER
from tests.support.watched import seconds, updates, watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    torch.set_num_threads(1)
    net = torch.nn.Linear(400, 400)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    def step():
        net(torch.randn(8, 400)).mean().backward(); opt.step(); opt.zero_grad()
"""


def test_saving_is_checkpoint_with_its_size_and_line(tmp_path):
    records = watched(
        tmp_path,
        LOOP
        + """
    for _ in range(3):
        step()
        torch.save(net.state_dict(), "net.pt")
    step()
    """,
    )
    saves = records.ranks[0].of("save")
    assert len(saves) == 3
    assert all(save["bytes"] > 400 * 400 * 4 for save in saves)
    assert saves[0]["at"]["line"] == 11
    rows = updates(records)
    assert (rows["checkpoint"][1:] > 0).all()
    assert seconds(rows, "checkpoint") == pytest.approx(sum(save["seconds"] for save in saves), rel=0.01)


def test_saving_can_be_handed_to_another_process(tmp_path):
    records = watched(
        tmp_path,
        LOOP
        + """
    import pickle
    step()
    pickle.loads(pickle.dumps(torch.save))(net.state_dict(), "net.pt")
    torch.serialization.save(net.state_dict(), "net.pt")
    step()
    """,
    )
    assert len(records.ranks[0].of("save")) == 2


def test_safetensors_are_checkpoints_too(tmp_path):
    pytest.importorskip("safetensors")
    records = watched(
        tmp_path,
        LOOP
        + """
    from safetensors.torch import save_file
    step()
    save_file(net.state_dict(), "net.safetensors")
    step()
    """,
    )
    assert [save["at"]["line"] for save in records.ranks[0].of("save")] == [11]


def test_who_sets_the_threads_is_noted(tmp_path):
    records = watched(tmp_path, LOOP + "\n    step()\n")
    (threads,) = records.ranks[0].of("threads")
    assert (threads["intra_op"], threads["at"]["line"]) == (1, 3)


def copied(tensor, device):
    """What is told of a copy while copies are looked at, and the time in the phase of copies."""
    recorder, moments, told = Recorder(None), Moments(), []
    moments.copied.append(lambda *seen: told.append(seen))
    hooks = SaveAndCopyHooks(SimpleNamespace(recorder=recorder), torch, moments)
    token = hooks.before_copy((tensor,), {})
    result = tensor.to(device) if device else None
    hooks.after_copy(token, (tensor,), result)
    assert recorder.current == OTHER
    return told, result, recorder.spent[HOST_TO_DEVICE]


def test_whoever_looks_at_copies_is_told_of_those_to_a_device_with_their_time():
    tensor = torch.ones(4)
    told, result, ns = copied(tensor, "meta")
    assert [(id(source), id(copy), took) for source, copy, took in told] == [(id(tensor), id(result), ns)]
    assert ns > 0


@pytest.mark.parametrize("device", ["cpu", None])
def test_one_that_stays_or_raises_is_no_copy(device):
    told, _, ns = copied(torch.ones(4), device)
    assert (told, ns) == ([], 0)
