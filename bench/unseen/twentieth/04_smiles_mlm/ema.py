import copy

import torch


class EMA:
    def __init__(self, model, decay, every):
        self.source = list(model.parameters())
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay, self.every = decay ** every, every

    @torch.no_grad()
    def update(self, step):
        if (step + 1) % self.every == 0:
            torch._foreach_lerp_(list(self.model.parameters()), self.source, 1 - self.decay)
