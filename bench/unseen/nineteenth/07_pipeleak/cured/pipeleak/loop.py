import time

import torch

from .model import segment_log_softmax


class LeakTrainer:
    def __init__(self, model, train_loader, holdout_loader, settings):
        self.model = model
        self.train_loader = train_loader
        self.holdout_loader = holdout_loader
        self.settings = settings
        optim = settings["optim"]
        self.clip = optim["clip"]
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=optim["lr"],
                                           weight_decay=optim["weight_decay"], fused=True)
        self.step = 0

    def loss(self, batch):
        logp = segment_log_softmax(self.model(batch), batch.owner, batch.count)
        return -logp[batch.leak].mean(), logp

    def train_step(self, batch):
        loss, _ = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    @torch.inference_mode()
    def holdout(self):
        self.model.eval()
        total = hits = seen = 0
        for batch in self.holdout_loader:
            loss, logp = self.loss(batch)
            best = logp.new_full((batch.count,), -torch.inf)
            best = best.scatter_reduce(0, batch.owner, logp, "amax")
            hits += int((logp[batch.leak] >= best).sum())
            total += float(loss) * batch.count
            seen += batch.count
        self.model.train()
        return total / seen, hits / seen

    def run(self):
        for epoch in range(self.settings["epochs"]):
            began, window = time.perf_counter(), []
            for batch in self.train_loader:
                window.append(self.train_step(batch))
                if self.step % self.settings["report_every"] == 0:
                    print(f"epoch {epoch} step {self.step} nll {torch.stack(window).mean():.4f}",
                          flush=True)
                    window.clear()
            nll, top1 = self.holdout()
            print(f"epoch {epoch} took {time.perf_counter() - began:.1f}s "
                  f"holdout nll {nll:.4f} top-1 {top1:.3f}", flush=True)
