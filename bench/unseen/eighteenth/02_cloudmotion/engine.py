"""Step engine with hooks."""
import copy
import time
from dataclasses import dataclass
from typing import Any

import torch


class Hook:
    def before_run(self, state): ...
    def after_step(self, state): ...
    def after_run(self, state): ...


@dataclass
class State:
    step: int = 0
    loss: Any = None
    data_term: Any = None
    forecast: Any = None
    observed: Any = None
    model: Any = None


class EmaHook(Hook):
    def __init__(self, decay):
        self.decay = decay

    def before_run(self, state):
        self.shadow = copy.deepcopy(state.model).requires_grad_(False)

    @torch.no_grad()
    def after_step(self, state):
        torch._foreach_lerp_(list(self.shadow.parameters()), list(state.model.parameters()), 1 - self.decay)


class ProgressHook(Hook):
    def __init__(self, every):
        self.every = every

    def before_run(self, state):
        self.t0 = time.perf_counter()

    def after_step(self, state):
        if state.step % self.every == 0:
            print(f"step {state.step:4d}  loss {state.loss.item():.4f}  l1 {state.data_term.item():.4f}  "
                  f"{time.perf_counter() - self.t0:.1f}s", flush=True)


class Engine:
    def __init__(self, model, objective, optimizer, scheduler, stream, leads, hooks=()):
        self.model, self.objective, self.optimizer, self.scheduler = model, objective, optimizer, scheduler
        self.stream, self.leads, self.hooks = stream, leads, list(hooks)
        self.state = State(model=model)

    def emit(self, event):
        for hook in self.hooks:
            getattr(hook, event)(self.state)

    def step(self, past, future):
        pred, flow = self.model(past, self.leads)
        loss, data_term = self.objective(pred, flow, future)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        s = self.state
        s.step += 1
        s.loss, s.data_term, s.forecast, s.observed = loss.detach(), data_term.detach(), pred.detach(), future

    def run(self, steps):
        self.emit("before_run")
        for (past, future), _ in zip(self.stream, range(steps)):
            self.step(past, future)
            self.emit("after_step")
        self.emit("after_run")
