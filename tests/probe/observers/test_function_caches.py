from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.function_caches import FunctionCacheEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import functools
    import json
    import random
    import time
    import torch
    from torch.utils.data import DataLoader, Dataset

    @functools.lru_cache(maxsize=4)
    def load(number):
        return torch.full((4,), float(number))

    @functools.lru_cache(maxsize=64)
    def large(number):
        return number

    @functools.lru_cache
    def read(text):
        return json.loads(text)

    class Items(Dataset):
        def __len__(self):
            return 160

        def __getitem__(self, index):
            return load(random.randrange(12)) * large(index % 8)

        @staticmethod
        def plain():
            return 1

        @functools.lru_cache(maxsize=2)
        def kept(self, number):
            return number

    data = Items()
    for number in range(40):
        data.kept(number % 3)
    parse = functools.lru_cache(maxsize=1)(json.loads)
    parse("1"), parse("2"), parse("1")

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for epoch in range(2):
        for x in DataLoader(data, batch_size=4{more}):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        time.sleep(1.1)
    assert load.cache_info().maxsize == 4
"""


@pytest.mark.parametrize(("more", "processes"), [("", 1), (", num_workers=1", 3)])
def test_full_caches_of_the_users_tell_what_they_have_had(tmp_path, more, processes):
    events = watched(tmp_path, SCRIPT.replace("{more}", more)).ranks[0].of(FunctionCacheEvent)
    of = {name: [event for event in events if event.at["function"] == name] for name in ("load", "kept")}
    assert {event.at["function"] for event in events} == {"load", "kept"}
    assert {event.maxsize for event in of["load"]} == {4}
    assert {event.maxsize for event in of["kept"]} == {2}
    last = of["load"][-1]
    assert last.misses > last.hits > 0
    assert last.hits + last.misses >= 64
    assert (of["kept"][0].hits, of["kept"][0].misses) == (0, 40)
    assert len({event.pid for event in events}) == processes
