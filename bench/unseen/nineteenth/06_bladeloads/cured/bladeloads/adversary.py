import copy
from contextlib import contextmanager

import torch
from torch.nn import functional as F

from .networks import Critic, Generator


@contextmanager
def frozen(module):
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)


class Adversary:
    """Generator, critic, their optimizers and the averaged generator."""

    def __init__(self, network, optim):
        self.optim = optim
        self.generator = Generator(network)
        self.critic = Critic(network)
        self.averaged = copy.deepcopy(self.generator).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=optim.lr_generator,
                                      betas=optim.betas, fused=True)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=optim.lr_critic,
                                      betas=optim.betas, fused=True)

    def critic_step(self, moments, condition):
        with torch.no_grad():
            fake = self.generator.sample(condition)
        real_score = self.critic(moments, condition)
        fake_score = self.critic(fake, condition)
        loss = F.relu(1.0 - real_score).mean() + F.relu(1.0 + fake_score).mean()
        self.opt_c.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_c.step()
        return loss.detach()

    def generator_step(self, condition):
        with frozen(self.critic):
            loss = -self.critic(self.generator.sample(condition), condition).mean()
            self.opt_g.zero_grad(set_to_none=True)
            loss.backward()
        self.opt_g.step()
        self.update_average()
        return loss.detach()

    @torch.no_grad()
    def update_average(self):
        torch._foreach_lerp_(list(self.averaged.parameters()), list(self.generator.parameters()),
                             1.0 - self.optim.average_decay)
