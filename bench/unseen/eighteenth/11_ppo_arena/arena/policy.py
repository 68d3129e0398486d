import torch
from torch import nn
from torch.distributions import Categorical


def ortho(layer, gain=2 ** 0.5):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class ActorCritic(nn.Module):
    def __init__(self, obs_shape, num_actions, width=32):
        super().__init__()
        c, g, _ = obs_shape
        self.trunk = nn.Sequential(
            ortho(nn.Conv2d(c, width, 3, stride=1, padding=1)), nn.ReLU(),
            ortho(nn.Conv2d(width, width * 2, 4, stride=2, padding=1)), nn.ReLU(),
            ortho(nn.Conv2d(width * 2, width * 2, 4, stride=2, padding=1)), nn.ReLU(),
            nn.Flatten(),
            ortho(nn.Linear(width * 2 * (g // 4) ** 2, 256)), nn.ReLU(),
        )
        self.pi = ortho(nn.Linear(256, num_actions), 0.01)
        self.v = ortho(nn.Linear(256, 1), 1.0)

    def forward(self, obs):
        h = self.trunk(obs)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)

    @torch.no_grad()
    def act(self, obs):
        dist, value = self(obs)
        action = dist.sample()
        return action, dist.log_prob(action), value

    def evaluate(self, obs, actions):
        dist, value = self(obs)
        return dist.log_prob(actions), dist.entropy(), value
