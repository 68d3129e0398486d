import numpy as np
import torch


class RolloutBuffer:
    """Preallocated (time, env) storage plus generalized advantages."""

    def __init__(self, horizon, num_envs, obs_shape):
        self.horizon, self.num_envs = horizon, num_envs
        flat = (horizon, num_envs)
        self.obs = torch.zeros(*flat, *obs_shape)
        self.actions = torch.zeros(flat, dtype=torch.long)
        self.logp = torch.zeros(flat)
        self.values = torch.zeros(flat)
        self.rewards = torch.zeros(flat)
        self.dones = torch.zeros(flat)
        self.adv = torch.zeros(flat)
        self.t = 0

    def add(self, obs, action, logp, value, reward, done):
        t = self.t
        self.obs[t] = obs
        self.actions[t], self.logp[t], self.values[t] = action, logp, value
        self.rewards[t] = torch.from_numpy(reward)
        self.dones[t] = torch.from_numpy(done.astype(np.float32))
        self.t += 1

    def finish(self, last_value, gamma, lam):
        assert self.t == self.horizon
        running = torch.zeros(self.num_envs)
        following = last_value
        for t in reversed(range(self.horizon)):
            alive = 1.0 - self.dones[t]
            delta = self.rewards[t] + gamma * following * alive - self.values[t]
            running = delta + gamma * lam * alive * running
            self.adv[t] = running
            following = self.values[t]
        self.t = 0

    def minibatches(self, size, epochs):
        total = self.horizon * self.num_envs
        fields = {
            "obs": self.obs.flatten(0, 1), "actions": self.actions.flatten(),
            "logp": self.logp.flatten(), "values": self.values.flatten(),
            "adv": self.adv.flatten(),
        }
        fields["returns"] = fields["adv"] + fields["values"]
        for epoch in range(epochs):
            for idx in torch.randperm(total).split(size):
                yield epoch, {k: v[idx] for k, v in fields.items()}
