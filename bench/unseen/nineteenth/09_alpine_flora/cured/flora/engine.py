import itertools

import torch
from torch.nn.parallel import DistributedDataParallel

from .mixins import CheckpointMixin, HookMixin, ProcessGroupMixin, ReportMixin


class Engine(ProcessGroupMixin, HookMixin, CheckpointMixin, ReportMixin):
    def __init__(self, cfg):
        self.cfg = cfg
        self.step = 0
        self.init_process_group()
        self.init_hooks()
        torch.manual_seed(cfg.seed)

    def setup(self, model, optimizer):
        self.bare_model = model
        self.optimizer = optimizer
        if self.world_size > 1:
            model = DistributedDataParallel(
                model,
                gradient_as_bucket_view=True,
                static_graph=True,
                forward_sync_buffers=False,
            )
        self.model = model

    def stream(self, loader):
        for epoch in itertools.count():
            if hasattr(loader.sampler, "set_epoch"):
                loader.sampler.set_epoch(epoch)
            yield from loader

    def training_step(self, batch, criterion):
        logits = self.model(batch["row"], batch["col"], batch["effort"])
        loss = criterion(logits, batch["present"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.emit("after_backward")
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader, criterion):
        self.model.train()
        self.emit("fit_start")
        for batch in itertools.islice(self.stream(loader), self.cfg.steps):
            self.emit("before_step")
            loss = self.training_step(batch, criterion)
            self.step += 1
            self.emit("after_step", loss=loss)
        self.emit("fit_end")
