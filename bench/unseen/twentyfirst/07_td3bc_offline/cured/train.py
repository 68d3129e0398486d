# TD3+BC on a fixed set of transitions (Fujimoto & Gu, 2021), single file.
#
# The behaviour data come from a noisy controller on a small multi-joint
# reaching task that is simulated with numpy, so nothing has to be downloaded.
#
#   python train.py
#   python train.py --max-updates 300 --eval-every 100
import argparse
import copy
import json
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max-updates", type=int, default=2200)
    p.add_argument("--eval-every", type=int, default=400)
    p.add_argument("--eval-episodes", type=int, default=32)
    p.add_argument("--log-every", type=int, default=200)
    p.add_argument("--transitions", type=int, default=700_000)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--discount", type=float, default=0.98)
    p.add_argument("--tau", type=float, default=0.005)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--policy-noise", type=float, default=0.2)
    p.add_argument("--noise-clip", type=float, default=0.5)
    p.add_argument("--policy-freq", type=int, default=2)
    p.add_argument("--alpha", type=float, default=2.5)
    p.add_argument("--save-dir", type=str, default="runs/td3bc_reach")
    return p.parse_args()


# ----------------------------------------------------------------------------
# Environment: six joints, torque control, reach a goal posture
# ----------------------------------------------------------------------------
class ReachVec:
    """A vector of independent copies; every method works on all of them."""

    n_joints = 6
    obs_dim = 18
    act_dim = 6
    dt = 0.05
    horizon = 100

    def __init__(self, n_envs, seed):
        self.n = n_envs
        self.rng = np.random.default_rng(seed)
        coupling = np.random.default_rng(99).normal(0, 0.08, (self.n_joints, self.n_joints))
        self.coupling = (coupling + coupling.T).astype(np.float32)
        self.gain = np.linspace(4.0, 8.0, self.n_joints, dtype=np.float32)

    def reset(self):
        shape = (self.n, self.n_joints)
        self.q = self.rng.uniform(-1, 1, shape).astype(np.float32)
        self.qd = np.zeros(shape, dtype=np.float32)
        self.goal = self.rng.uniform(-1, 1, shape).astype(np.float32)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.q, self.qd, self.goal - self.q], axis=1)

    def step(self, action):
        action = np.clip(action, -1, 1)
        acc = self.gain * action - 0.8 * self.qd - 0.5 * np.sin(self.q) + self.q @ self.coupling
        self.qd = np.clip(self.qd + self.dt * acc, -4, 4)
        self.q = self.q + self.dt * self.qd
        self.t += 1
        dist = np.square(self.goal - self.q).mean(axis=1)
        reward = np.exp(-4.0 * dist) - 0.02 * np.square(action).mean(axis=1)
        return self.obs(), reward.astype(np.float32), self.t >= self.horizon


def behaviour(obs, rng, stiffness):
    """PD controller whose stiffness differs per copy, plus exploration noise."""
    qd, err = obs[:, 6:12], obs[:, 12:18]
    noise = rng.normal(0, 0.35, err.shape).astype(np.float32)
    return np.clip(stiffness * err - 0.35 * qd + noise, -1, 1)


# ----------------------------------------------------------------------------
# Transitions
# ----------------------------------------------------------------------------
class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, capacity):
        self.capacity = capacity
        self.ptr = 0
        self.size = 0
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.action = np.zeros((capacity, act_dim), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.reward = np.zeros((capacity, 1), dtype=np.float32)
        self.not_done = np.zeros((capacity, 1), dtype=np.float32)

    def add_batch(self, obs, action, next_obs, reward, done):
        n = min(len(obs), self.capacity - self.ptr)
        s = slice(self.ptr, self.ptr + n)
        self.obs[s], self.action[s], self.next_obs[s] = obs[:n], action[:n], next_obs[:n]
        self.reward[s, 0] = reward[:n]
        self.not_done[s, 0] = 1.0 - float(done)
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def normalize_states(self, eps=1e-3):
        mean = self.obs[:self.size].mean(0, keepdims=True)
        std = self.obs[:self.size].std(0, keepdims=True) + eps
        self.obs = (self.obs - mean) / std
        self.next_obs = (self.next_obs - mean) / std
        return mean, std

    def sample(self, batch_size):
        idx = np.random.randint(0, self.size, size=batch_size)
        return (
            torch.from_numpy(self.obs[idx]),
            torch.from_numpy(self.action[idx]),
            torch.from_numpy(self.next_obs[idx]),
            torch.from_numpy(self.reward[idx]),
            torch.from_numpy(self.not_done[idx]),
        )


def collect(args):
    n_envs = 500
    env = ReachVec(n_envs, args.seed)
    rng = np.random.default_rng(args.seed + 10)
    buffer = ReplayBuffer(env.obs_dim, env.act_dim, args.transitions)
    returns = []
    while buffer.size < args.transitions:
        stiffness = rng.uniform(0.2, 1.6, (n_envs, 1)).astype(np.float32)
        obs, done, total = env.reset(), False, 0.0
        while not done:
            action = behaviour(obs, rng, stiffness)
            next_obs, reward, done = env.step(action)
            if buffer.size < args.transitions:
                # time limit, not a terminal state
                buffer.add_batch(obs, action, next_obs, reward, done=False)
            total += reward.mean()
            obs = next_obs
        returns.append(total)
    return buffer, float(np.mean(returns))


# ----------------------------------------------------------------------------
# Networks
# ----------------------------------------------------------------------------
class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, act_dim), nn.Tanh(),
        )

    def forward(self, obs):
        return self.net(obs)


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()

        def q():
            return nn.Sequential(
                nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(),
                nn.Linear(hidden, hidden), nn.ReLU(),
                nn.Linear(hidden, 1),
            )

        self.q1, self.q2 = q(), q()

    def forward(self, obs, action):
        x = torch.cat([obs, action], dim=1)
        return self.q1(x), self.q2(x)

    def Q1(self, obs, action):
        return self.q1(torch.cat([obs, action], dim=1))


# ----------------------------------------------------------------------------
# Agent
# ----------------------------------------------------------------------------
class TD3BC:
    def __init__(self, obs_dim, act_dim, args):
        self.args = args
        self.actor = Actor(obs_dim, act_dim, args.hidden)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.critic = Critic(obs_dim, act_dim, args.hidden)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=args.lr)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs)).numpy()

    @torch.no_grad()
    def _target(self, next_obs, reward, not_done, action):
        a = self.args
        noise = (torch.randn_like(action) * a.policy_noise).clamp(-a.noise_clip, a.noise_clip)
        next_action = (self.actor_target(next_obs) + noise).clamp(-1, 1)
        q1, q2 = self.critic_target(next_obs, next_action)
        return reward + not_done * a.discount * torch.min(q1, q2)

    @torch.no_grad()
    def _soft_update(self, net, target):
        src, dst = list(net.parameters()), list(target.parameters())
        torch._foreach_lerp_(dst, src, self.args.tau)

    def update(self, batch):
        self.updates += 1
        obs, action, next_obs, reward, not_done = batch
        target = self._target(next_obs, reward, not_done, action)
        q1, q2 = self.critic(obs, action)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_opt.step()

        info = {"critic_loss": critic_loss.detach(), "q": q1.detach().mean()}
        if self.updates % self.args.policy_freq == 0:
            pi = self.actor(obs)
            q = self.critic.Q1(obs, pi)
            lmbda = self.args.alpha / q.abs().mean().detach()
            bc = F.mse_loss(pi, action)
            actor_loss = -lmbda * q.mean() + bc
            self.actor_opt.zero_grad(set_to_none=True)
            actor_loss.backward()
            self.actor_opt.step()
            self._soft_update(self.critic, self.critic_target)
            self._soft_update(self.actor, self.actor_target)
            info["actor_loss"], info["bc"] = actor_loss.detach(), bc.detach()
        return info


def evaluate(agent, args, mean, std):
    env = ReachVec(args.eval_episodes, seed=args.seed + 1000)
    obs, done = env.reset(), False
    total = np.zeros(args.eval_episodes)
    while not done:
        obs, reward, done = env.step(agent.act(((obs - mean) / std).astype(np.float32)))
        total += reward
    return total.mean(), total.std()


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_dir, exist_ok=True)

    t0 = time.time()
    buffer, behaviour_return = collect(args)
    mean, std = buffer.normalize_states()
    print(f"{buffer.size} transitions in {time.time() - t0:.1f}s, "
          f"behaviour return {behaviour_return:.2f}")

    agent = TD3BC(ReachVec.obs_dim, ReachVec.act_dim, args)
    scores, best = [], -1e9
    t0 = time.time()
    for it in range(1, args.max_updates + 1):
        info = agent.update(buffer.sample(args.batch_size))

        if it % args.log_every == 0:
            text = "  ".join(f"{k} {v.item():.4f}" for k, v in info.items())
            print(f"update {it:6d}  {text}  sps {it / (time.time() - t0):.0f}", flush=True)

        if it % args.eval_every == 0 or it == args.max_updates:
            ret, spread = evaluate(agent, args, mean, std)
            scores.append({"update": it, "return": float(ret), "std": float(spread)})
            print(f"---- eval after {it} updates: {ret:.2f} +- {spread:.2f}")
            if ret > best:
                best = ret
                torch.save(agent.actor.state_dict(), os.path.join(args.save_dir, "actor.pt"))

    with open(os.path.join(args.save_dir, "scores.json"), "w") as f:
        json.dump(scores, f)
    print(f"best return {best:.2f} (behaviour {behaviour_return:.2f}), {time.time() - t0:.1f}s")


if __name__ == "__main__":
    main()
