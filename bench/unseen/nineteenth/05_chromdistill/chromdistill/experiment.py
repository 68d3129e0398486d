import time
from itertools import islice

import torch
from torch.nn import functional as F


class Experiment:
    def __init__(self, student, teacher, views, loader, optimizer, scheduler, probe, settings):
        self.student = student
        self.teacher = teacher
        self.views = views
        self.loader = loader
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.probe = probe
        self.settings = settings
        self.step = 0

    def train_step(self, traces):
        patches, mask = self.views(traces)
        target = self.teacher.targets(patches, mask)
        predicted = self.student(patches, mask)
        loss = F.smooth_l1_loss(predicted, target, beta=2.0)

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), 3.0)
        self.optimizer.step()
        self.scheduler.step()
        self.teacher.update(self.student.encoder, self.step)
        self.step += 1
        return loss.detach()

    def fit(self):
        params = sum(p.numel() for p in self.student.parameters())
        print(f"student parameters: {params / 1e6:.2f}M, traces: {len(self.loader.dataset)}")
        for epoch in range(self.settings.epochs):
            began = time.perf_counter()
            window = []
            for traces in islice(self.loader, self.settings.steps_per_epoch):
                window.append(self.train_step(traces))
                if self.step % self.settings.log_every == 0:
                    mean = torch.stack(window).mean().item()
                    window.clear()
                    print(f"epoch {epoch} step {self.step:4d} loss {mean:.4f} "
                          f"lr {self.scheduler.get_last_lr()[0]:.2e}", flush=True)
            accuracy = self.probe.score(self.teacher.encoder)
            print(f"epoch {epoch} done in {time.perf_counter() - began:.1f}s, "
                  f"family probe accuracy {accuracy:.3f}", flush=True)
