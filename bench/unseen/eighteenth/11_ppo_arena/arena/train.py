import numpy as np
import torch

from .config import parse
from .policy import ActorCritic
from .ppo import PPO
from .wrappers import make_env


def main():
    cfg = parse()
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    env = make_env(cfg)
    policy = ActorCritic(env.obs_shape, env.num_actions, cfg.width)
    count = sum(p.numel() for p in policy.parameters())
    print(f"{cfg.num_envs} envs, {count / 1e6:.2f}M parameters", flush=True)
    PPO(cfg, env, policy).run()


if __name__ == "__main__":
    main()
