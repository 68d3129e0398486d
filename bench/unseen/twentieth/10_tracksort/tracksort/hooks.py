import copy
import logging
import os
import time

import torch

from .net import sorting_loss
from .report import assignment_table

log = logging.getLogger("tracksort")


class Hook:
    def start(self, trainer): ...
    def after_step(self, trainer, state): ...
    def finish(self, trainer): ...


class ShadowWeights(Hook):
    def __init__(self, decay):
        self.decay = decay

    def start(self, trainer):
        trainer.shadow = copy.deepcopy(trainer.net).requires_grad_(False)
        self.pairs = (list(trainer.shadow.parameters()), list(trainer.net.parameters()))

    @torch.no_grad()
    def after_step(self, trainer, state):
        shadow, current = self.pairs
        torch._foreach_lerp_(shadow, current, 1 - self.decay)


class AssignmentLog(Hook):
    def after_step(self, trainer, state):
        log.debug(f"step {state.step} assignments\n"
                  f"{assignment_table(state.hits, state.logits, state.label)}")


class Progress(Hook):
    def __init__(self, every):
        self.every = every

    def start(self, trainer):
        self.begun = time.perf_counter()
        self.losses = []

    def after_step(self, trainer, state):
        self.losses.append(state.loss)
        if state.step % self.every == 0:
            mean = torch.stack(self.losses).mean().item()
            self.losses.clear()
            log.info("step %d  loss %.4f  %.1f s", state.step, mean, time.perf_counter() - self.begun)


class Validation(Hook):
    def __init__(self, held_out, every, batch=256):
        self.held_out, self.every, self.batch = held_out, every, batch

    @torch.inference_mode()
    def after_step(self, trainer, state):
        if state.step % self.every:
            return
        total, right = [], []
        for hits, label in zip(*(t.split(self.batch) for t in self.held_out)):
            logits = trainer.shadow(hits)
            total.append(sorting_loss(logits, label))
            right.append((logits.argmax(-1) == label).float().mean())
        trainer.score = torch.stack(total).mean().item()
        log.info("held out: loss %.4f  purity %.4f", trainer.score, torch.stack(right).mean().item())


class BestCheckpoint(Hook):
    def __init__(self, folder):
        self.folder = folder
        self.best = float("inf")

    def after_step(self, trainer, state):
        if trainer.score < self.best:
            self.best = trainer.score
            os.makedirs(self.folder, exist_ok=True)
            torch.save(trainer.shadow.state_dict(), os.path.join(self.folder, "best.pt"))
