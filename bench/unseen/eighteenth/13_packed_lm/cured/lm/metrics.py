"""Running figures. Document scores weigh a short document as much as a long one."""
import torch


def spans(segments):
    """(row, segment) pairs present in a batch."""
    for r, row in enumerate(segments):
        for s in row.unique().tolist():
            if s:
                yield r, s


class Average:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, value, n=1):
        self.total += value
        self.n += n

    def pop(self):
        value = self.total / max(self.n, 1)
        self.total, self.n = 0.0, 0
        return value


class DocumentScore:
    def __init__(self):
        self.nll = Average()

    def _score(self, nll, batch, r, s):
        keep = batch["scored"][r] & (batch["seg"][r] == s)
        return nll[r][keep].mean().item() if keep.any() else None

    @torch.no_grad()
    def update(self, logits, batch, nll):
        for r, s in spans(batch["seg"]):
            value = self._score(nll, batch, r, s)
            if value is not None:
                self.nll.add(value)


class Tracker:
    def __init__(self):
        self.losses, self.docs = [], DocumentScore()

    def observe(self, loss, logits, batch, nll):
        self.losses.append(loss.detach())
        self.docs.update(logits.detach(), batch, nll.detach())

    def report(self):
        loss = torch.stack(self.losses).mean().item()
        self.losses.clear()
        return {"loss": loss, "doc_nll": self.docs.nll.pop()}
