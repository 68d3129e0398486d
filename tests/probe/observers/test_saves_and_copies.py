import pytest

pytest.importorskip("torch")

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
