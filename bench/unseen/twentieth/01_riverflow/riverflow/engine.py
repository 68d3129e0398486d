import torch

from .models import laplace_nll


class Trainer:
    def __init__(self, model, train_set, val_set, cfg, hooks):
        self.model, self.train_set, self.val_set = model, train_set, val_set
        self.cfg, self.hooks = cfg, hooks
        run = cfg["run"]
        self.batch_size, self.epochs = run["batch_size"], run["epochs"]
        self.total_steps = self.epochs * (train_set.size // self.batch_size)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=run["lr"], weight_decay=1e-3)
        self.generator = torch.Generator().manual_seed(run["seed"])
        self.step = self.epoch = 0
        self.batch = self.pred = self.loss = None
        self.metrics = {}

    def call(self, point):
        for hook in self.hooks:
            getattr(hook, point)(self)

    def fit(self):
        self.call("before_fit")
        for self.epoch in range(self.epochs):
            self.model.train()
            for self.batch in self.train_set.batches(self.batch_size, self.generator):
                self.train_step()
            self.metrics = self.evaluate()
            self.call("after_epoch")
        self.call("after_fit")

    def train_step(self):
        self.call("before_step")
        mean, log_scale = self.model(self.batch["x"], self.batch["s"])
        self.pred, self.scale = mean.detach(), log_scale.detach()
        self.loss = laplace_nll(mean, log_scale, self.batch["y"])
        self.optimizer.zero_grad(set_to_none=True)
        self.loss.backward()
        self.call("after_backward")
        self.optimizer.step()
        self.step += 1
        self.call("after_step")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        err = var = n = 0.0
        for b in self.val_set.batches(self.batch_size, None):
            mean, _ = self.model(b["x"], b["s"])
            err += (mean - b["y"]).square().sum().item()
            var += (b["y"] - b["y"].mean()).square().sum().item()
            n += b["y"].numel()
        return {"rmse": (err / n) ** 0.5, "nse": 1 - err / var}
