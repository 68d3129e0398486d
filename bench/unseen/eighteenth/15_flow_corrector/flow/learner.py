import time

import torch
from torch import nn


class Learner:
    def __init__(self, solver, net, bank, opt):
        self.solver, self.net, self.bank, self.opt = solver, net, bank, opt
        self.optim = torch.optim.Adam(net.parameters(), lr=opt.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.optim, opt.iters)

    def rollout(self, w):
        """Corrected prediction, one frame after the other."""
        states = []
        for _ in range(self.opt.unroll):
            w, (u, v) = self.solver.step(w)
            w = w + self.opt.dt * self.net(w, u, v)
            states.append(w)
        return torch.stack(states, 1)

    def update(self, frames):
        predicted = self.rollout(frames[:, 0])
        loss = (predicted - frames[:, 1:]).pow(2).mean((0, 2, 3)).sum()
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optim.step()
        self.sched.step()
        return loss.detach()

    def run(self):
        began, recent = time.time(), []
        for it in range(1, self.opt.iters + 1):
            recent.append(self.update(self.bank.draw(self.opt.batch, self.opt.unroll)))
            if it % 20 == 0 or it == self.opt.iters:
                print(f"iter {it} loss {torch.stack(recent).mean().item():.5f} "
                      f"{time.time() - began:.1f}s", flush=True)
                recent.clear()
