from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.wire.events.ranks import WrapperEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import distributed
    {imports} import fully_shard
    from torch.distributed.device_mesh import init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    net = torch.nn.Linear(4, 4)
    fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
    other = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    for step in range(5):
        other(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    distributed.destroy_process_group()
"""

OF_ITS_OWN = """
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    class Wrapped(DistributedDataParallel):
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    net = Wrapped(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(5):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    distributed.destroy_process_group()
"""


def test_a_class_of_the_scripts_below_torchs_wrapper_is_that_wrapper(tmp_path):
    (event,) = watched(tmp_path, OF_ITS_OWN).ranks[0].of(WrapperEvent)
    assert (event.kind, event.world) == ("DistributedDataParallel", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "torch.distributed.fsdp",
        "torch.distributed._composable.fsdp",
        "torch.distributed._composable.fsdp.fully_shard",
    ],
)
def test_sharding_is_told_once_wherever_a_version_of_torch_keeps_it(tmp_path, place):
    if not hasattr(pytest.importorskip(place), "fully_shard"):
        pytest.skip("this torch has it elsewhere")
    (event,) = watched(tmp_path, SCRIPT.format(imports=f"from {place}")).ranks[0].of(WrapperEvent)
    assert (event.kind, event.at["line"]) == ("FSDP", 9)
