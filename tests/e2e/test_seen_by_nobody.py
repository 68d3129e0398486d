"""Scripts that look for what does not belong to them find nothing: watched and bare they print the same."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.watched import prepared, read

pytest.importorskip("torch")
pytestmark = [pytest.mark.process, pytest.mark.slow]

# Enough steps for each kind of look: of modules at backwards 2, 4, 8, ..., of calls after 64 and 128 updates.
BEGIN = """
import collections, copy, inspect, os, pickle, sys, traceback, warnings
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = 140

def model_of(size):
    return nn.Sequential(nn.Linear(size, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

class Counts:
    '''Prints what was counted in a step where that is not as in the step before.'''
    def __init__(self):
        self.seen, self.last = collections.Counter(), None
    def step(self, number):
        if self.seen != self.last:
            print(number, sorted(self.seen.items()))
        self.seen, self.last = collections.Counter(), self.seen

def name_of(function):
    owner = getattr(getattr(function, "__self__", None), "__name__", "")
    return f"{owner}.{getattr(function, '__name__', function)}"

counts = Counts()
"""

FUNCTIONS = """
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        counts.seen[name_of(function)] += 1
        return function(*args, **(kwargs or {}))
"""
OPERATORS = """
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        counts.seen[str(function)] += 1
        return function(*args, **(kwargs or {}))
"""

# The mode is there all the time.
WHOLE_STEPS = """
net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(STEPS):
    with Mode():
        loss = F.cross_entropy(net(torch.randn(6, 8)), torch.randint(4, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 9:
            net.eval()
            with torch.no_grad():
                net(torch.randn(6, 8))
            net.train()
        extra = torch.randn(3, requires_grad=True)
        torch.autograd.grad(extra.square().sum(), extra)
    counts.step(step)
"""
# It comes in the middle of steps, some of which are looked at.
FORWARD_ONLY = """
net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
table = torch.randn(6, 8)
for step in range(STEPS):
    batch = table * 2
    with Mode():
        loss = F.cross_entropy(net(batch), torch.randint(4, (6,)))
    optimizer.zero_grad()
    loss.backward()
    with Mode():
        optimizer.step()
    counts.step(step)
"""
# A loader without workers, whole rows of whole numbers, two optimizers, gradients added up.
LOADED = """
class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20_000, 16)
        self.out = nn.Linear(16, 4)
    def forward(self, text):
        return self.out(self.table(text).mean(1))

data = TensorDataset(torch.randint(1, 20_000, (32 * STEPS // 4, 20)), torch.randint(4, (32 * STEPS // 4,)))
net = Texts()
frozen = model_of(16).requires_grad_(False).eval()
optimizers = [torch.optim.SGD(net.table.parameters(), 1e-3), torch.optim.Adam(net.out.parameters())]
step = 0
with Mode():
    for epoch in range(4):
        for texts, labels in DataLoader(data, 32, shuffle=True):
            with torch.no_grad():
                frozen(net.table(texts[:, 0]))
            for part in range(2):
                F.cross_entropy(net(texts), labels).div(2).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            counts.step(step)
            step += 1
"""
SCALED = """
net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(20):
    with Mode():
        loss = F.mse_loss(net(torch.randn(6, 8)), torch.zeros(6, 4))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    counts.step(step)
"""
NO_OPTIMIZER = """
weight = torch.randn(8, 4, requires_grad=True)
for step in range(STEPS):
    with Mode():
        loss = (torch.randn(6, 8) @ weight).square().mean()
        loss.backward()
        with torch.no_grad():
            weight -= 1e-3 * weight.grad
            weight.grad = None
    counts.step(step)
"""

SUBCLASSES = """
class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        counts.seen[name_of(function)] += 1
        return super().__torch_function__(function, types, args, kwargs or {})

class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    def __init__(self, inner):
        self.inner = inner
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        counts.seen[str(function)] += 1
        given = [one.inner if isinstance(one, cls) else one for one in args]
        return function(*given, **(kwargs or {}))
    __torch_function__ = torch._C._disabled_torch_function_impl

class Items(Dataset):
    def __len__(self):
        return 4 * STEPS // 2
    def __getitem__(self, index):
        return torch.full((8,), index / 100.0).as_subclass(Logged), index % 4

net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
step = 0
for epoch in range(2):
    for batch, labels in DataLoader(Items(), 4):
        loss = F.cross_entropy(net(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counts.step(step)
        step += 1

net = nn.Linear(8, 1, bias=False)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(STEPS):
    optimizer.zero_grad()
    net(Wrapped(torch.randn(4, 8))).mean().backward()
    optimizer.step()
    counts.step(step)
"""

PROFILED = """
from torch.profiler import ProfilerActivity, profile, schedule

class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20_000, 16)
        self.out = nn.Linear(16, 4)
    def forward(self, text):
        return self.out(self.table(text).mean(1))

data = TensorDataset(torch.randint(1, 20_000, (32 * STEPS // 4, 20)), torch.randint(4, (32 * STEPS // 4,)))
net = Texts()
frozen = model_of(16).requires_grad_(False).eval()
optimizers = [torch.optim.SGD(net.table.parameters(), 1e-3), torch.optim.Adam(net.out.parameters())]

def told(profiled):
    for event in profiled.events():
        counts.seen[event.name] += 1

def steps():
    while True:
        for texts, labels in DataLoader(data, 32, shuffle=True):
            with torch.no_grad():
                frozen(net.table(texts[:, 0]))
            for part in range(2):
                F.cross_entropy(net(texts), labels).div(2).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            yield

def two(profiled):
    told(profiled)
    counts.step("scheduled")

train = steps()
for step in range(0, 76, 2):
    if 16 <= step < 64:
        next(train), next(train)
        continue
    {begin}
"""
BY_PROFILE = """with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        next(train), next(train)
    told(profiled)
    counts.step(step)
"""
BY_AUTOGRAD = """with torch.autograd.profiler.profile() as profiled:
        next(train), next(train)
    for event in profiled.function_events:
        counts.seen[event.name] += 1
    counts.step(step)
"""
SCHEDULED = """break
with profile(schedule=schedule(wait=5, warmup=1, active=2), on_trace_ready=two) as profiled:
    for step in range(76):
        next(train)
        profiled.step()
"""

WARNED = """
class Reports(nn.Module):
    def forward(self, x):
        warnings.warn("of a forward pass", stacklevel=4)
        return x * self.weight
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

def collate(items):
    warnings.warn("of collating", stacklevel=2)
    return torch.stack(items)

class Short(IterableDataset):
    def __repr__(self):
        return "short"
    def __iter__(self):
        return iter(torch.ones(9, 8))
    def __len__(self):
        return 4

net = Reports()
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(STEPS):
    loss = net(torch.randn(4, 8)).square().sum()
    F.softmax(torch.ones(3))
    optimizer.zero_grad()
    torch.autograd.grad(loss, net.weight, retain_graph=True, only_inputs=False)
    torch.autograd.backward(loss, grad_variables=None if step % 2 else torch.ones(()))
    optimizer.step()
    net.zero_grad()
    if step % 64 in (2, 3, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for attempt in (
                lambda: F.softmax(torch.ones(3)),
                lambda: net(torch.ones(8)),
                lambda: torch.autograd.grad(net.weight.sum(), net.weight, only_inputs=False),
                lambda: torch.tensor(torch.ones(3)),
            ):
                try:
                    attempt()
                except Warning as error:
                    print([(one.name, one.lineno) for one in traceback.extract_tb(error.__traceback__)], error)
        with warnings.catch_warnings(record=True) as caught:
            net(torch.ones(8))
            list(DataLoader(torch.ones(8, 8), 4, collate_fn=collate, num_workers=0))
            short = DataLoader(Short(), 2, num_workers=0)
            len(short), list(short)
            F.softmax(torch.ones(3))
        for one in caught:
            print(os.path.basename(one.filename), one.lineno, one.category.__name__, str(one.message)[:60])
"""

ASKED = """
class Asked:
    '''Whoever asks it anything is counted.'''
    def __getattr__(self, name):
        if name.startswith("__"):
            counts.seen["class " + name] += 1
        else:
            counts.seen[name] += 1
        raise AttributeError(name)

class Items(Asked, Dataset):
    def __len__(self):
        counts.seen["len"] += 1
        return 24
    def __getitem__(self, index):
        counts.seen["item"] += 1
        return torch.full((8,), index / 10.0), index % 4

class Slots:
    __slots__ = ("items",)
    def __getattr__(self, name):
        counts.seen["slots " + name] += 1
        raise AttributeError(name)
    def __len__(self):
        counts.seen["len of slots"] += 1
        return 24
    def __getitem__(self, index):
        return torch.full((8,), index / 10.0), index % 4

class Batches(Asked):
    def __len__(self):
        counts.seen["batches"] += 1
        return 6
    def __iter__(self):
        counts.seen["iter of batches"] += 1
        return iter([[4 * at, 4 * at + 1, 4 * at + 2, 4 * at + 3] for at in range(6)])
    @property
    def batch_size(self):
        counts.seen["batch size"] += 1
        return 4

class Order(Asked):
    def __init__(self, items):
        self.items = items
    def __len__(self):
        counts.seen["len of order"] += 1
        return 24
    def __iter__(self):
        counts.seen["iter of order"] += 1
        return iter(range(24))

class Collate(Asked):
    def __call__(self, items):
        counts.seen["collate"] += 1
        return torch.utils.data.default_collate(items)

class Broken(Dataset):
    '''It has no length, and says so in a way of its own.'''
    def __len__(self):
        counts.seen["broken"] += 1
        raise LookupError("nobody knows")
    def __getitem__(self, index):
        return torch.ones(8), 0

net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
items = Items()
loaders = [
    lambda: DataLoader(items, 4),
    lambda: DataLoader(items, 4, shuffle=True),
    lambda: DataLoader(items, batch_sampler=Batches()),
    lambda: DataLoader(items, 4, sampler=Order(items), collate_fn=Collate()),
    lambda: DataLoader(Slots(), 4),
    lambda: DataLoader(Broken(), batch_sampler=Batches(), collate_fn=Collate()),
    lambda: DataLoader(torch.utils.data.Subset(items, range(8)), 4),
    lambda: DataLoader(items, 4, num_workers=1, shuffle=True),
]
for make in loaders:
    loader = make()
    counts.step("made")
    for epoch in range(3):
        for batch, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(batch), labels).backward()
            optimizer.step()
        counts.step(f"epoch {epoch}")
"""

OBJECTS = """
from torch.utils.data import dataloader

data = TensorDataset(torch.randn(32, 8), torch.randint(4, (32,)))
net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
loader = DataLoader(data, 4)

def trained():
    for batch, labels in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(batch), labels).backward()
        optimizer.step()

def described(name, value):
    print(name, type(value), getattr(value, "__qualname__", None), getattr(value, "__module__", None))
    print(getattr(value, "__doc__", None))
    for ask in (inspect.signature, inspect.getsource, inspect.isfunction, inspect.isroutine, callable):
        try:
            print(ask(value))
        except (TypeError, OSError, ValueError) as error:
            print(type(error), error)

for round in range(3):
    trained()
places = [
    (DataLoader, "__init__"), (DataLoader, "__iter__"), (DataLoader, "__len__"),
    (dataloader._BaseDataLoaderIter, "__next__"), (dataloader._MultiProcessingDataLoaderIter, "_shutdown_workers"),
    (nn.Module, "__call__"), (nn.Module, "zero_grad"), (nn.Module, "double"), (nn.Module, "__init__"),
    (torch.Tensor, "backward"), (torch.Tensor, "to"), (torch.autograd, "backward"), (torch.autograd, "grad"),
    (torch.optim.SGD, "step"), (torch.optim.Optimizer, "zero_grad"), (torch.optim.Optimizer, "__init__"),
    (torch, "save"), (torch, "compile"), (torch, "set_default_dtype"),
    (F, "cross_entropy"), (torch.amp.GradScaler, "step"), (torch.utils.data.sampler.RandomSampler, "__iter__"),
]
for owner, name in places:
    value = getattr(owner, name)
    described(name, value)
    print(value is getattr(owner, name), pickle.loads(pickle.dumps(value)) is value)
for value in (net, optimizer, loader):
    print(type(value), sorted(vars(value)))
    copied = copy.deepcopy(value)
    print(type(copied), sorted(vars(copied)), len(pickle.dumps(value)) > 0)
iterator = iter(loader)
next(iterator)
print(type(iterator) is dataloader._SingleProcessDataLoaderIter, sorted(vars(iterator)))
print(iterator._collate_fn is loader.collate_fn, type(iterator).__next__ is dataloader._BaseDataLoaderIter.__next__)
print(len(pickle.dumps(loader)), len(pickle.dumps(net)), net.state_dict().keys())
"""

INTERRUPTED = """
import multiprocessing.process, signal, time

data = TensorDataset(torch.randn(32, 8), torch.randint(4, (32,)))
net = model_of(8)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)

def frames(error):
    return [f"{os.path.basename(one.filename)}:{one.lineno} {one.name}" for one in traceback.extract_tb(error.__traceback__)]

iterator = iter(DataLoader(data, 4, num_workers=1))
next(iterator)
joined = multiprocessing.process.BaseProcess.join
def join(self, timeout=None):
    raise KeyboardInterrupt
multiprocessing.process.BaseProcess.join = join
try:
    iterator._shutdown_workers()
except KeyboardInterrupt as error:
    print(frames(error))
multiprocessing.process.BaseProcess.join = joined

class Late(Exception):
    pass

def late(number, frame):
    raise Late

class Items(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 5:
            signal.raise_signal(signal.SIGUSR1)
        return torch.ones(8), 0

class Length(Items):
    def __len__(self):
        raise Late

signal.signal(signal.SIGUSR1, late)
for attempt in (
    lambda: list(DataLoader(Items(), 4)),
    lambda: list(DataLoader(Length(), 4)),
    lambda: DataLoader(Length(), 4, shuffle=True),
):
    try:
        attempt()
    except Late as error:
        print(frames(error))

def ours(error):
    # Python itself calls handlers where a function begins: no line of it has run by then that could tell of it.
    # The first one asks whether torch compiles, and is not to be guarded.
    found = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return [
        f"{code.co_filename}:{line} {code.co_name}" for code, line in found
        if "/perfdoctor/probe/" in code.co_filename and line > code.co_firstlineno + 1
    ]

signal.signal(signal.SIGALRM, late)
for step in range(1500):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + step % 150))
        for batch, labels in DataLoader(data, 8):
            optimizer.zero_grad()
            F.cross_entropy(net(batch), labels).backward()
            optimizer.step()
    except Late as error:
        if ours(error):
            print(step, ours(error))
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            pass  # it came as the step was over
        torch.set_grad_enabled(True)  # an optimizer that was interrupted may leave it off
"""

VALUES = """
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint

class Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.name = "a name of its own"
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        counts.seen[ctx.name] += 1
        return gradient * 2

net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
batch, labels = torch.randn(6, 8), torch.randint(4, (6,))

def loss_of(parameters, row, label):
    return F.cross_entropy(functional_call(net, parameters, (row[None],)), label[None])

for step in range(STEPS):
    named = Named.apply(net(batch))
    loss = F.cross_entropy(named, labels)
    counts.seen[f"{type(named.grad_fn).__name__} {named.grad_fn.name} {loss.grad_fn.name()}"] += 1
    loss = loss + checkpoint(net, batch, use_reentrant=False).mean() + checkpoint(net, batch.requires_grad_(), use_reentrant=True).mean()
    batch.requires_grad_(False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    each = vmap(grad(loss_of), (None, 0, 0))(dict(net.named_parameters()), batch, labels)
    counts.seen[str(sorted(each))] += 1
    print(step, loss.item(), sum(one.sum().item() for one in each.values()))
    counts.step(step)
    if step in (1, 2, 3, 7, 66, 67, 68, 131, 132):
        print(torch.jit.trace(net, batch).graph)
        print(torch.func.jacrev(net)(batch).sum(), vmap(net)(batch).sum())
        print(torch.fx.symbolic_trace(net).graph)
"""

SCRIPTS = {
    "function-mode": FUNCTIONS + WHOLE_STEPS,
    "function-mode-in-forward": FUNCTIONS + FORWARD_ONLY,
    "function-mode-loaded": FUNCTIONS + LOADED,
    "function-mode-scaled": FUNCTIONS + SCALED,
    "function-mode-without-optimizer": FUNCTIONS + NO_OPTIMIZER,
    "dispatch-mode": OPERATORS + WHOLE_STEPS,
    "dispatch-mode-in-forward": OPERATORS + FORWARD_ONLY,
    "dispatch-mode-loaded": OPERATORS + LOADED,
    "dispatch-mode-scaled": OPERATORS + SCALED,
    "dispatch-mode-without-optimizer": OPERATORS + NO_OPTIMIZER,
    "subclasses": SUBCLASSES,
    "profiled": PROFILED.replace("{begin}", BY_PROFILE),
    "profiled-by-autograd": PROFILED.replace("{begin}", BY_AUTOGRAD),
    "profiled-on-schedule": PROFILED.replace("{begin}", SCHEDULED),
    "warned": WARNED,
    "warned-always": "import warnings; warnings.simplefilter('always')" + WARNED,
    "asked": ASKED,
    "objects": OBJECTS,
    "values": VALUES,
}


def ran(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The script of a folder, run to its end."""
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**environment, "KINETO_LOG_LEVEL": "99"},  # else torch tells of profilers and when
        capture_output=True,
        text=True,
    )


@pytest.mark.shows("surroundings", "randomness", "streams")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_looks_for_it_prints_what_it_prints_bare(tmp_path: Path, script: str) -> None:
    watching = prepared(tmp_path, textwrap.dedent(BEGIN + SCRIPTS[script]))
    bare, watched = ran(tmp_path, dict(os.environ)), ran(tmp_path, watching)
    assert bare.returncode == 0, bare.stderr
    assert watched.stdout == bare.stdout
    assert (watched.returncode, watched.stderr) == (bare.returncode, bare.stderr)
    read(tmp_path)


@pytest.mark.shows("other-signals", "interrupt", "raises")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters put a frame back when re-raising")
def test_what_interrupts_shows_no_frame_of_ours(tmp_path: Path) -> None:
    watching = prepared(tmp_path, textwrap.dedent(BEGIN + INTERRUPTED))
    bare, watched = ran(tmp_path, dict(os.environ)), ran(tmp_path, watching)
    assert bare.returncode == 0, bare.stderr
    assert (watched.returncode, watched.stdout) == (bare.returncode, bare.stdout)
