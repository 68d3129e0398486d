from types import SimpleNamespace

import torch

from .net import sorting_loss


class Trainer:
    def __init__(self, net, data, args, hooks):
        self.net, self.args, self.hooks = net, args, hooks
        self.features, self.label = data
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-2)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.steps)
        self.shadow = None
        self.score = float("inf")

    def batches(self):
        gen = torch.Generator().manual_seed(self.args.seed)
        while True:
            for index in torch.randperm(len(self.label), generator=gen).split(self.args.batch):
                if len(index) == self.args.batch:
                    yield self.features[index], self.label[index]

    def call(self, name, *rest):
        for hook in self.hooks:
            getattr(hook, name)(self, *rest)

    def run(self):
        self.call("start")
        for step, (hits, label) in zip(range(1, self.args.steps + 1), self.batches()):
            logits = self.net(hits)
            loss = sorting_loss(logits, label)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.call("after_step", SimpleNamespace(step=step, hits=hits, label=label,
                                                    logits=logits.detach(), loss=loss.detach()))
        self.call("finish")
