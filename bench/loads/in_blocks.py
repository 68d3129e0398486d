"""Blocks of steps of small loops, bare and watched in turn in one process, between marks that callgrind sees.

    valgrind --tool=callgrind --instr-atstart=no --dump-before=getsid python bench/loads/in_blocks.py ...

Each mark dumps what was counted since the one before: every second dump is a block. What the probe put into
torch is taken out for the bare blocks and put back for the watched ones, so that both run on the same objects
in the same memory.

A block holds what a usual step costs, whatever its place in a run. What is done every 16th, 32nd or 64th time
is done equally often in each block of 64 steps. What is done once a second or 50 times, at turns 64, 128,
256, ... or for a few items of a dataset lies in none, nor does garbage collection, which comes when it comes.
Under callgrind a batch takes longer than any that the probe calls cheap; it is told to take all for cheap, as
these are without it. Replacing an attribute of `nn.Module` has the interpreter forget what it learned of all
modules, which it learns again in the steps before a block.
"""

import argparse
import gc
import itertools
import json
import os
import subprocess
import tempfile

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils.data import DataLoader, TensorDataset

from perfdoctor.probe import patch, recorder, schedule, session, start
from perfdoctor.probe.loader import making
from perfdoctor.probe.observers import item_work
from perfdoctor.probe.steps import steps as tracking
from perfdoctor.probe.steps import thread

NEVER_NS = 1 << 62
WARM_UP = 600  # steps of the first load: past backward 512, the last before which anything is looked at
READY = 128  # steps before a block: an instruction is specialised anew after 53 of its calls
PLAYED = 16  # calls of a policy before each update
ITEMS = 1 << 20  # of a dataset: more than all blocks need, and hardly one of those that are looked at


def dataset():
    return TensorDataset(torch.randn(ITEMS, 4), torch.randn(ITEMS, 1))


def repeated(step):
    """A load that makes `step()` so many times."""

    def steps(count):
        for _ in range(count):
            step()

    return steps


def tiny():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(dataset(), 1))

    def step():
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return repeated(step)


def from_memory(model, optimizer, x, y):
    """A step on one batch, without a loader."""

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def mlp():
    # Narrow: what is added does not depend on it, and callgrind takes minutes for products of large matrices.
    layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    return repeated(from_memory(model, optimizer, torch.randn(4, 16), torch.randint(10, (4,))))


def deep():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return repeated(from_memory(model, optimizer, torch.randn(2, 4), torch.randint(4, (2,))))


def loader():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(dataset(), 8, num_workers=2))

    def step():
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return repeated(step)


def accumulation():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(dataset(), 1))

    def step():
        optimizer.zero_grad()
        for x, y in itertools.islice(batches, 4):
            nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return repeated(step)


def gan():
    made, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    of_made = torch.optim.SGD(made.parameters(), lr=0.01)
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.01)
    noise = torch.randn(2, 4)

    def step():
        of_judge.zero_grad()
        judge(made(noise).detach()).sum().backward()
        of_judge.step()
        of_made.zero_grad()
        judge(made(noise)).sum().backward()
        of_made.step()

    return repeated(step)


def validation():
    model, x, y = nn.Linear(4, 4), torch.randn(2, 4), torch.randint(4, (2,))
    train = from_memory(model, torch.optim.SGD(model.parameters(), lr=0.01), x, y)

    def step():
        train()
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()

    return repeated(step)


def lbfgs():
    model, x = nn.Linear(4, 1), torch.randn(2, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    return repeated(lambda: optimizer.step(closure))


def scaler():
    model, x = nn.Linear(4, 1), torch.randn(2, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scale = torch.amp.GradScaler("cpu")

    def step():
        optimizer.zero_grad()
        scale.scale(model(x).sum()).backward()
        scale.step(optimizer)
        scale.update()

    return repeated(step)


def policy(plays_in_eval_mode):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen, batch = torch.randn(1, 4), torch.randn(PLAYED, 4)

    def step():
        if plays_in_eval_mode:
            model.eval()
        with torch.no_grad():
            for _ in range(PLAYED):
                model(seen)
        if plays_in_eval_mode:
            model.train()
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return repeated(step)


def rollout():
    return policy(plays_in_eval_mode=False)


def eval_rollout():
    return policy(plays_in_eval_mode=True)


LOADS = [tiny, mlp, deep, loader, accumulation, gan, validation, lbfgs, scaler, rollout, eval_rollout]


class Toggle:
    """What the probe put into torch, which can be taken out and put back."""

    def __init__(self):
        self.replaced = {}  # (owner, attribute) -> [original, wrapper]
        self.hooks = _global_optimizer_pre_hooks, _global_optimizer_post_hooks
        self.kept = ()
        patch.setattr = self.setattr  # shadows the builtin in that module, the one place that replaces

    def setattr(self, owner, attribute, value):
        self.replaced.setdefault((owner, attribute), [getattr(owner, attribute), None])[1] = value
        setattr(owner, attribute, value)

    def take_out(self):
        for (owner, attribute), (original, _) in self.replaced.items():
            setattr(owner, attribute, original)
        self.kept = tuple(dict(hooks) for hooks in self.hooks)
        for hooks in self.hooks:
            hooks.clear()

    def put_back(self):
        for (owner, attribute), (_, wrapper) in self.replaced.items():
            setattr(owner, attribute, wrapper)
        for hooks, kept in zip(self.hooks, self.kept, strict=True):
            hooks.update(kept)


def begin(folder):
    """Start the probe as in a watched process, without profiler windows; returns what sees its steps."""
    made = []
    install = tracking.install
    tracking.install = lambda tracker: (made.append(tracker), install(tracker))
    making.CHEAP_NS = making.CHEAPEST_NS = NEVER_NS
    item_work.FIRST = NEVER_NS
    recorder.ASK_NS = NEVER_NS
    for module in (session, schedule, thread):
        module.PULSE_NS = NEVER_NS
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"profiler": False}, file)
    start.begin(folder)
    assert not patch.broken(), patch.broken()
    return made[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--loads", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    chosen = [load for load in LOADS if load.__name__ in args.loads.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        toggle = Toggle()
        tracker = begin(folder)
        loads = {load.__name__: load() for load in chosen}
        for number, steps in enumerate(loads.values()):
            steps(READY if number else WARM_UP)
        tracker.schedule.next = NEVER_NS
        for counts in tracker.clearing.counts:
            counts.next = NEVER_NS
        tracker.clearing.open.clear()  # of loads that made too few steps to close what they opened
        gc.disable()
        subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True, capture_output=True)
        for name, steps in loads.items():
            for way in ["bare", "watched"] * args.rounds:
                if way == "bare":
                    toggle.take_out()
                steps(READY)
                os.getsid(0)
                steps(args.steps)
                os.getsid(0)
                if way == "bare":
                    toggle.put_back()
                print(json.dumps({"load": name, "way": way, "pid": os.getpid()}), flush=True)


if __name__ == "__main__":
    main()
