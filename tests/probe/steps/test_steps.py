import numpy as np
import pytest

pytest.importorskip("torch")

from tests.support.watched import seconds, updates, watched

pytestmark = pytest.mark.process

MODEL = """
    import time, torch
    torch.manual_seed(0); torch.set_num_threads(1)
    class Slow(torch.nn.Linear):
        def forward(self, x):
            time.sleep(0.01)
            return super().forward(x)
    net = Slow(4, 1)
    x = torch.randn(8, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def test_time_is_charged_to_the_phase_it_was_spent_in(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y): return y.sum()
        @staticmethod
        def backward(ctx, g): time.sleep(0.02); return g.expand(8, 1)
    for _ in range(6):
        y = net(x)
        time.sleep(0.005)                  # the loss: part of forward
        loss = Loss.apply(y)
        loss.backward()
        time.sleep(0.004)                  # clipping: part of the optimizer
        opt.step(); opt.zero_grad()
        time.sleep(0.003)                  # logging: other
    """,
    )
    rows = updates(records)[1:]
    assert len(rows) == 5
    assert seconds(rows, "forward") >= 5 * 0.015
    assert seconds(rows, "backward") >= 5 * 0.02
    assert seconds(rows, "optimizer_ns") >= 5 * 0.004
    phases = list(rows.dtype.names[13:])
    total = (rows["end_ns"] - rows["begin_ns"]).astype(np.int64)
    other = total - sum(rows[name].astype(np.int64) for name in phases)
    assert (other >= 3_000_000).all()
    assert (rows["begin_ns"][1:] == rows["end_ns"][:-1]).all()


@pytest.mark.shows("many-optimizers")
def test_a_closure_is_forward_and_backward_inside_one_update(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    opt = torch.optim.LBFGS(net.parameters(), max_iter=3)
    def closure():
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        return loss
    for _ in range(4):
        opt.step(closure)
    """,
    )
    rows = updates(records)
    assert len(rows) == 4
    assert (rows["backwards"][1:] >= 2).all()
    assert (rows["forward"][1:] >= rows["calls"][1:].astype(np.int64) * 10_000_000).all()
    assert (rows["loss"][2:] < rows["loss"][1:-1]).all()


def test_a_pass_in_eval_mode_is_validation_only_where_the_module_trains(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    teacher = Slow(4, 1).eval()
    for _ in range(4):
        with torch.no_grad(): target = teacher(x)
        (net(x) - target).pow(2).mean().backward()
        opt.step(); opt.zero_grad()
    net.eval()
    with torch.no_grad(): net(x); net(x)
    net(x)
    net.train()
    net(x).mean().backward(); opt.step()
    """,
    )
    rows = updates(records)
    assert len(rows) == 5
    assert (rows["validation"][:4] == 0).all()
    assert (rows["forward"][1:4] >= 20_000_000).all()
    assert rows["validation"][4] >= 30_000_000
    (last,) = records.ranks[0].of("eval")[-1:]
    assert (last["calls"], last["grad_calls"]) == (3, 1)
    assert last["at"]["line"] == 19


@pytest.mark.shows("many-optimizers")
def test_a_skipped_update_counts_and_is_marked(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    scaler = torch.amp.GradScaler("cpu")
    for i in range(5):
        loss = net(x).pow(2).mean() * (float("inf") if i == 2 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(opt); scaler.update(); opt.zero_grad()
    """,
    )
    rows = updates(records)
    assert list(rows["flags"] & 1) == [0, 0, 1, 0, 0]
    assert 0 < rows["loss"][1] < 10


def test_a_failed_optimizer_step_does_not_confuse_the_next(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Moody(torch.optim.SGD):
        def step(self, closure=None):
            if closure is None: raise RuntimeError("out of memory")
            return super().step()
    opt = Moody(net.parameters(), lr=0.1)
    for i in range(5):
        net(x).mean().backward()
        try: opt.step(None if i == 2 else (lambda: None))
        except RuntimeError: pass
        opt.zero_grad()
    """,
    )
    rows = updates(records)
    assert len(rows) == 4
    assert (rows["forward"] >= 0).all()
    assert rows["forward"][-1] >= 10_000_000


@pytest.mark.shows("many-optimizers")
def test_a_step_inside_the_optimizers_own_step_is_a_part_of_it(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Base(torch.optim.SGD):
        def step(self, closure=None): super().step()
    class Twice(Base):                     # torch hooks the steps of both classes
        def step(self, closure=None):
            super().step()
            time.sleep(0.01)
            net(x).mean().backward()
            super().step()
    Base(net.parameters(), lr=0.1)
    opt = Twice(net.parameters(), lr=0.1)
    for i in range(4):
        net(x).mean().backward()
        opt.step(); opt.zero_grad()
    """,
    )
    rows = updates(records)
    assert len(rows) == 4
    assert list(rows["calls"][1:]) == [2, 2, 2]
    assert (rows["optimizer_ns"] >= 10_000_000).all()


@pytest.mark.shows("many-optimizers")
def test_a_step_that_failed_and_is_repeated_inside_another_phase_leaves_that_phase_alone(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Moody(torch.optim.SGD):
        fails = False
        def step(self, closure=None):
            if self.fails: raise RuntimeError("out of memory")
            return super().step()
    opt = Moody(net.parameters(), lr=0.1)
    def in_backward(gradient):
        opt.fails = False
        opt.step()
    def in_forward(*_): opt.step()
    def train():
        net(x).mean().backward()
        try: opt.step()
        except RuntimeError: pass
    train()
    opt.fails = True
    train()
    handle = net.weight.register_hook(in_backward)
    net(x).mean().backward()               # the step is made in here
    handle.remove()
    opt.fails = True
    train()
    outer = torch.nn.Sequential(net)
    handle = net.register_forward_hook(in_forward)
    try: outer(x)                          # fails in here once more
    except RuntimeError: pass
    handle.remove()
    opt.fails = False
    for _ in range(3): train()
    """,
    )
    rows = updates(records)
    assert len(rows) == 5
    assert (rows["forward"][-3:] >= 10_000_000).all()
    assert (rows["forward"][-3:] < 1_000_000_000).all()


@pytest.mark.shows("many-optimizers")
def test_an_optimizer_whose_step_failed_for_good_keeps_no_other_from_counting(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Moody(torch.optim.SGD):
        def step(self, closure=None): raise RuntimeError("out of memory")
    def train(opt):
        net(x).mean().backward()
        try: opt.step()
        except RuntimeError: pass
    train(Moody(net.parameters(), lr=0.1))
    for _ in range(3): train(opt)
    class Guarded(torch.optim.SGD):        # whose step outlives the failure of another inside it
        def step(self, closure=None):
            train(moody)
            super().step()
    moody, guarded = Moody(net.parameters(), lr=0.1), Guarded(net.parameters(), lr=0.1)
    for _ in range(2):
        net(x).mean().backward(); guarded.step()
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(2):
        scaler.scale(net(x).mean()).backward()
        try: scaler.step(moody)
        except RuntimeError: pass
        scaler.update()
    for _ in range(3): train(opt)
    """,
    )
    rows = updates(records)
    assert len(rows) == 3 + 2 + 2 + 3
    assert (rows["optimizer"][-3:] == rows["optimizer"][0]).all()


def test_optimizers_and_models_that_take_the_place_of_others_in_memory_are_new(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    def update(opt):
        net(x).mean().backward()
        opt.step(); opt.zero_grad()
    for fold in range(6):
        torch.nn.MSELoss()(x, x)           # a module without parameters, gone at once
        net, opt = None, None
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2): update(opt)
    opt = None
    pair = [torch.optim.SGD(net.parameters(), lr=0.1) for _ in range(2)]
    for opt in pair: update(opt)
    del pair[0]
    pair.append(torch.optim.SGD(net.parameters(), lr=0.1))
    for opt in pair: update(opt)
    """,
    )
    rows = updates(records)
    assert (rows["calls"][1:] >= 1).all()  # a forward before the first backward closes a row of its own
    assert list(rows["optimizer"]) == [1] * 12 + [1, 2, 2, 1]
    assert [event["id"] for event in records.ranks[0].of("optimizer")] == [1] * 6 + [1, 2, 1]


def test_updates_made_by_gradient_hooks_are_one_step(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    each = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}
    def update(p):
        each[p].step(); each[p].zero_grad()
    for p in net.parameters(): p.register_post_accumulate_grad_hook(update)
    for _ in range(5): net(x).mean().backward()
    """,
    )
    assert len(updates(records)) == 5


def test_tracing_exporting_and_fake_tensors_work_as_without_us(tmp_path):
    records = watched(
        tmp_path,
        """
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        x = torch.randn(3, 4)
        torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), x)(x)
        torch.jit.script(net)(x)
        torch.fx.symbolic_trace(net)(x)
        torch.export.export(net, (x,)).module()(x)
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            torch.nn.Linear(2, 2)(torch.randn(1, 2)).sum().backward()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            (net(x) + 1).sum().backward(); opt.step(); opt.zero_grad()
        """,
    )
    assert len(updates(records)) == 3
    assert (updates(records)["loss"][1:] > 0).all()


def test_torchscript_compiles_code_that_asks_for_gradients(tmp_path):
    watched(
        tmp_path,
        MODEL
        + """
    from typing import Optional
    @torch.jit.script
    def slope(x: torch.Tensor) -> Optional[torch.Tensor]:
        return torch.autograd.grad([x.pow(2).sum()], [x])[0]
    @torch.jit.script
    def fill(x: torch.Tensor):
        torch.autograd.backward([x.pow(2).sum()])
    x = torch.ones(2, requires_grad=True)
    assert slope(x).tolist() == [2.0, 2.0]
    fill(x)
    assert x.grad.tolist() == [2.0, 2.0]
    """,
    )


def test_a_model_may_have_parameters_and_modules_of_its_own(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    class Net(Slow):
        modules = None
        def parameters(self, group): return [self.weight, self.bias][group:]
    net = Net(4, 1)
    opt = torch.optim.SGD(net.parameters(0), lr=0.1)
    for _ in range(3):
        net(x).mean().backward(); opt.step(); opt.zero_grad()
    """,
    )
    assert (updates(records)["forward"][1:] >= 10_000_000).all()


def test_updates_of_another_thread_while_a_backward_goes_on_make_no_step(tmp_path):
    records = watched(
        tmp_path,
        MODEL
        + """
    import threading
    other = torch.nn.Parameter(torch.ones(2))
    beside = torch.optim.SGD([other], lr=0.1)
    def aside():
        other.grad = torch.ones(2)
        beside.step()
    def in_backward(gradient):
        thread = threading.Thread(target=aside)
        thread.start(); thread.join()
    for step in range(4):
        loss = net(x).mean()
        if step > 1: loss.register_hook(in_backward)
        loss.backward(); opt.step(); opt.zero_grad()
    """,
    )
    assert len(updates(records)) == 4
