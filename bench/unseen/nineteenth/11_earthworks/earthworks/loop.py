import time

import torch

from .losses import to_network_scale


class Callback:
    def phase_start(self, loop, phase):
        pass

    def batch_end(self, loop, phase, output, target):
        pass

    def phase_end(self, loop, phase):
        pass


class ProgressPrinter(Callback):
    def __init__(self, every):
        self.every = every

    def phase_start(self, loop, phase):
        self.since = time.perf_counter()

    def batch_end(self, loop, phase, output, target):
        if phase == "train" and loop.step % self.every == 0:
            now = time.perf_counter()
            parts = "  ".join(f"{name} {value.item():.3f}" for name, value in loop.parts.items())
            print(f"  step {loop.step:4d}  {parts}  {(now - self.since) / self.every * 1e3:.0f} ms/step", flush=True)
            self.since = now


class TaskWeights(Callback):
    """Lets the period task fade in once the dense heads have settled."""

    def __init__(self, criterion):
        self.criterion = criterion
        self.target = criterion.weights["period"]

    def phase_start(self, loop, phase):
        self.criterion.weights["period"] = self.target * min(1.0, (loop.epoch + 1) / 2)


class Loop:
    def __init__(self, net, criterion, optimizer, epochs, callbacks):
        self.net, self.criterion, self.optimizer = net, criterion, optimizer
        self.epochs, self.callbacks = epochs, callbacks
        self.step = self.epoch = 0
        self.scores = {}

    def call(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def run_phase(self, phase, loader):
        training = phase == "train"
        self.net.train(training)
        self.call("phase_start", phase)
        total = 0.0
        for batch in loader:
            target = to_network_scale(batch)
            with torch.set_grad_enabled(training):
                output = self.net(batch["relief"])
                loss, self.parts = self.criterion(output, target)
            if training:
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                self.step += 1
            total += loss.item()
            self.call("batch_end", phase, {name: value.detach() for name, value in output.items()}, target)
        self.mean_loss = total / len(loader)
        self.call("phase_end", phase)

    def fit(self, train_loader, val_loader):
        for self.epoch in range(self.epochs):
            train_loader.dataset.epoch = self.epoch
            self.run_phase("train", train_loader)
            self.run_phase("val", val_loader)
