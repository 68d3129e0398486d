"""TD3 with prioritised replay for a three-joint planar manipulator reaching for targets.

The buffer starts with scripted demonstrations (Jacobian-transpose controller with noise).
"""
import argparse
import copy
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LINKS = np.array([0.5, 0.4, 0.25])
DT = 0.05
HORIZON = 60


def kinematics(q):
    cum = np.cumsum(q, axis=-1)
    return np.stack([(LINKS * np.cos(cum)).sum(-1), (LINKS * np.sin(cum)).sum(-1)], axis=-1)


def jacobian(q):
    cum = np.cumsum(q, axis=-1)
    s, c = LINKS * np.sin(cum), LINKS * np.cos(cum)
    jx = -np.cumsum(s[..., ::-1], axis=-1)[..., ::-1]
    jy = np.cumsum(c[..., ::-1], axis=-1)[..., ::-1]
    return np.stack([jx, jy], axis=-2)


def observe(q, dq, goal):
    tip = kinematics(q)
    return np.concatenate([np.cos(q), np.sin(q), dq, tip, goal, goal - tip], axis=-1).astype(np.float32)


def dynamics(q, dq, action):
    dq = np.clip(0.9 * dq + DT * 6.0 * action, -3.0, 3.0)
    return q + DT * dq, dq


def reward_fn(q, goal, action):
    dist = np.linalg.norm(kinematics(q) - goal, axis=-1)
    return -dist - 0.02 * (action ** 2).sum(-1) + (dist < 0.05) * 1.0


def random_goal(rng, n):
    radius, angle = rng.uniform(0.3, 1.0, n), rng.uniform(-np.pi, np.pi, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


class ReachEnv:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.q = self.rng.uniform(-1.5, 1.5, 3)
        self.dq = np.zeros(3)
        self.goal = random_goal(self.rng, 1)[0]
        self.t = 0
        return observe(self.q, self.dq, self.goal)

    def step(self, action):
        self.q, self.dq = dynamics(self.q, self.dq, action)
        self.t += 1
        return observe(self.q, self.dq, self.goal), float(reward_fn(self.q, self.goal, action)), self.t >= HORIZON


class SumTree:
    def __init__(self, capacity):
        self.leaves = 1 << (capacity - 1).bit_length()
        self.nodes = np.zeros(2 * self.leaves)

    def set(self, where, values):
        where = np.asarray(where) + self.leaves
        self.nodes[where] = values
        while where[0] > 1:
            where = np.unique(where >> 1) if len(where) > 4096 else where >> 1
            self.nodes[where] = self.nodes[2 * where] + self.nodes[2 * where + 1]

    def find(self, mass):
        node = np.ones(len(mass), np.int64)
        while node[0] < self.leaves:
            node = 2 * node
            left = self.nodes[node]
            right = mass >= left
            mass = np.where(right, mass - left, mass)
            node += right
        return node - self.leaves


class PrioritisedReplay:
    def __init__(self, capacity, obs_dim, act_dim, alpha=0.6, beta=0.4, seed=0):
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros((capacity, act_dim), np.float32)
        self.rew = np.zeros(capacity, np.float32)
        self.priorities = np.zeros(capacity)
        self.tree = SumTree(capacity)
        self.pos = self.size = 0
        self.max_priority = 1.0
        self.rng = np.random.default_rng(seed)

    def extend(self, obs, act, rew, next_obs):
        n = len(rew)
        where = (self.pos + np.arange(n)) % self.capacity
        self.obs[where], self.act[where], self.rew[where], self.next_obs[where] = obs, act, rew, next_obs
        self.priorities[where] = self.max_priority
        self.tree.set(where, self.max_priority ** self.alpha)
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size):
        total = self.tree.nodes[1]
        idx = np.minimum(self.tree.find(self.rng.random(batch_size) * total), self.size - 1)
        weights = (self.size * self.priorities[idx] ** self.alpha / total) ** (-self.beta)
        weights = torch.from_numpy((weights / weights.max()).astype(np.float32))
        batch = [torch.from_numpy(a[idx]) for a in (self.obs, self.act, self.rew, self.next_obs)]
        return batch, weights, idx

    def update(self, idx, td_error):
        new = np.abs(td_error) + 1e-3
        self.priorities[idx] = new
        self.tree.set(idx, self.priorities[idx] ** self.alpha)
        self.max_priority = max(self.max_priority, float(new.max()))

    def save(self, path):
        n = self.size
        np.savez_compressed(path, obs=self.obs[:n], act=self.act[:n], rew=self.rew[:n],
                            next_obs=self.next_obs[:n], priorities=self.priorities[:n])


def mlp(n_in, n_out, width=256):
    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_out))


class Agent:
    def __init__(self, obs_dim, act_dim, lr=3e-4, gamma=0.97, tau=0.005):
        self.gamma, self.tau = gamma, tau
        self.actor = nn.Sequential(mlp(obs_dim, act_dim), nn.Tanh())
        self.q1, self.q2 = mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)
        self.nets = nn.ModuleList([self.actor, self.q1, self.q2])
        self.targets = copy.deepcopy(self.nets).requires_grad_(False)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.opt_critic = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=lr)

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs)).numpy()

    def critic_step(self, batch, weights):
        obs, act, rew, next_obs = batch
        actor_t, q1_t, q2_t = self.targets
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(act)).clamp(-0.5, 0.5)
            nxt = torch.cat([next_obs, (actor_t(next_obs) + noise).clamp(-1, 1)], 1)
            target = rew + self.gamma * torch.min(q1_t(nxt), q2_t(nxt)).squeeze(1)
        x = torch.cat([obs, act], 1)
        q1, q2 = self.q1(x).squeeze(1), self.q2(x).squeeze(1)
        loss = (weights * (F.mse_loss(q1, target, reduction="none") + F.mse_loss(q2, target, reduction="none"))).mean()
        self.opt_critic.zero_grad()
        loss.backward()
        self.opt_critic.step()
        return loss.detach(), (target - q1).detach().numpy()

    def actor_step(self, obs):
        loss = -self.q1(torch.cat([obs, self.actor(obs)], 1)).mean()
        self.opt_actor.zero_grad()
        loss.backward()
        self.opt_actor.step()
        with torch.no_grad():
            for p, t in zip(self.nets.parameters(), self.targets.parameters()):
                t.lerp_(p, self.tau)

    def state_dict(self):
        return {"nets": self.nets.state_dict(), "targets": self.targets.state_dict(),
                "opt_actor": self.opt_actor.state_dict(), "opt_critic": self.opt_critic.state_dict()}


def record_demonstrations(path, transitions, seed):
    rng = np.random.default_rng(seed)
    n = transitions // HORIZON
    q, dq, goal = rng.uniform(-1.5, 1.5, (n, 3)), np.zeros((n, 3)), random_goal(rng, n)
    rows = []
    for _ in range(HORIZON):
        obs = observe(q, dq, goal)
        pull = np.einsum("nij,ni->nj", jacobian(q), goal - kinematics(q))
        act = np.clip(3.0 * pull - 0.3 * dq + 0.3 * rng.standard_normal((n, 3)), -1, 1)
        q, dq = dynamics(q, dq, act)
        rows.append((obs, act.astype(np.float32), reward_fn(q, goal, act).astype(np.float32), observe(q, dq, goal)))
    np.savez(path, **{k: np.concatenate(v) for k, v in zip(("obs", "act", "rew", "next_obs"), zip(*rows))})


def evaluate(agent, episodes, seed):
    env, returns, final = ReachEnv(seed), [], []
    for _ in range(episodes):
        obs, done, total = env.reset(), False, 0.0
        while not done:
            obs, rew, done = env.step(agent.act(obs))
            total += rew
        returns.append(total)
        final.append(np.linalg.norm(kinematics(env.q) - env.goal))
    return float(np.mean(returns)), float(np.mean(final))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4800)
    ap.add_argument("--demos", type=int, default=360_000)
    ap.add_argument("--capacity", type=int, default=500_000)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--eval-every", type=int, default=600)
    ap.add_argument("--save-every", type=int, default=600)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    out = Path(tempfile.mkdtemp(prefix="reach_"))

    record_demonstrations(out / "demos.npz", args.demos, args.seed)
    env = ReachEnv(args.seed)
    obs = env.reset()
    replay = PrioritisedReplay(args.capacity, obs.shape[0], 3, seed=args.seed)
    with np.load(out / "demos.npz") as demos:
        replay.extend(demos["obs"], demos["act"], demos["rew"], demos["next_obs"])
    agent = Agent(obs.shape[0], 3)
    noise_rng = np.random.default_rng(args.seed + 1)

    start, history = time.time(), []
    for step in range(1, args.steps + 1):
        action = np.clip(agent.act(obs) + 0.1 * noise_rng.standard_normal(3), -1, 1).astype(np.float32)
        next_obs, rew, done = env.step(action)
        replay.extend(obs[None], action[None], np.array([rew], np.float32), next_obs[None])
        obs = env.reset() if done else next_obs

        batch, weights, idx = replay.sample(args.batch_size)
        loss, td_error = agent.critic_step(batch, weights)
        replay.update(idx, td_error)
        if step % 2 == 0:
            agent.actor_step(batch[0])

        if step % 100 == 0:
            print(f"step {step:5d}  critic {loss.item():.5f}  {step / (time.time() - start):.1f} it/s", flush=True)
        if step % args.eval_every == 0:
            ret, dist = evaluate(agent, 8, seed=1000)
            history.append({"step": step, "return": ret, "distance": dist})
            print(f"  eval return {ret:.2f}  final distance {dist:.3f}", flush=True)
        if step % args.save_every == 0:
            torch.save({"agent": agent.state_dict(), "step": step}, out / "agent.pt")
            replay.save(out / "replay.npz")
    (out / "history.json").write_text(json.dumps(history))
    print("done", history[-1] if history else "")


if __name__ == "__main__":
    main()
