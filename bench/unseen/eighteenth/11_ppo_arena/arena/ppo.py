import time
from collections import defaultdict

import torch
from torch import nn

from .buffer import RolloutBuffer


class Meter:
    def __init__(self):
        self.rows = defaultdict(list)

    def push(self, **values):
        for k, v in values.items():
            self.rows[k].append(v.detach())

    def flush(self):
        out = {k: torch.stack(v).mean().item() for k, v in self.rows.items()}
        self.rows.clear()
        return out


class PPO:
    def __init__(self, cfg, env, policy):
        self.cfg, self.env, self.policy = cfg, env, policy
        self.opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr, eps=1e-5)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda u: max(1.0 - u / cfg.updates, 0.05))
        self.buffer = RolloutBuffer(cfg.horizon, cfg.num_envs, env.obs_shape)
        self.meter = Meter()
        self.obs = torch.from_numpy(env.reset())
        self.steps = 0

    def collect(self):
        for _ in range(self.cfg.horizon):
            action, logp, value = self.policy.act(self.obs)
            nxt, reward, done = self.env.step(action.numpy())
            self.buffer.add(self.obs, action, logp, value, reward, done)
            self.obs = torch.from_numpy(nxt)
        _, _, last = self.policy.act(self.obs)
        self.buffer.finish(last, self.cfg.gamma, self.cfg.lam)

    def loss(self, mb):
        cfg = self.cfg
        logp, entropy, value = self.policy.evaluate(mb["obs"], mb["actions"])
        adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
        log_ratio = logp - mb["logp"]
        ratio = log_ratio.exp()
        pg = -torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv).mean()
        vf = 0.5 * (value - mb["returns"]).pow(2).mean()
        kl = (ratio - 1 - log_ratio).mean()
        self.meter.push(pg=pg, vf=vf, kl=kl, ent=entropy.mean())
        return pg + cfg.vf_coef * vf - cfg.ent_coef * entropy.mean(), kl

    def improve(self):
        cfg = self.cfg
        for _, mb in self.buffer.minibatches(cfg.minibatch, cfg.epochs):
            loss, kl = self.loss(mb)
            if cfg.target_kl and kl.item() > cfg.target_kl:
                break
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), cfg.max_grad_norm)
            self.opt.step()
            self.steps += 1
        self.sched.step()

    def run(self):
        start = time.time()
        for update in range(1, self.cfg.updates + 1):
            self.collect()
            self.improve()
            if update % self.cfg.log_every == 0 or update == self.cfg.updates:
                stats = " ".join(f"{k} {v:.4f}" for k, v in self.meter.flush().items())
                print(f"update {update} steps {self.steps} return {self.env.summary():.2f} "
                      f"{stats} ({time.time() - start:.1f}s)", flush=True)
