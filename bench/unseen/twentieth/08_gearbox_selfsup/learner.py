import copy

import torch
import torch.nn.functional as F


class Bootstrap:
    """Student predicts the slow teacher's projection of the other view."""

    def __init__(self, student, lr, decay, wd):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.decay = decay
        self.opt = torch.optim.AdamW(student.parameters(), lr=lr, weight_decay=wd, foreach=True)
        self.slow, self.fast = list(self.teacher.parameters()), list(student.parameters())

    def loss(self, views):
        p = F.normalize(self.student(views), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.teacher.target(views), dim=-1)
        a, b = z.chunk(2)
        return 2 - 2 * (p * torch.cat([b, a])).sum(-1).mean()

    def update(self, chunks):
        self.opt.zero_grad(set_to_none=True)
        total = 0.0
        for views in chunks:
            loss = self.loss(views) / len(chunks)
            loss.backward()
            total = total + loss.detach()
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.slow, self.fast, 1 - self.decay)
        return total


@torch.inference_mode()
def centroid_probe(encoder, x, y, crop):
    encoder.eval()
    h = F.normalize(torch.cat([encoder(c[:, :crop]) for c in x.split(128)]), dim=-1)
    half = len(h) // 2
    c = torch.stack([h[:half][y[:half] == k].mean(0) for k in range(4)])
    acc = ((h[half:] @ c.T).argmax(1) == y[half:]).float().mean().item()
    encoder.train()
    return acc
