import argparse
import dataclasses
import time

import torch

from .adversary import Adversary
from .fatigue import FatigueMonitor
from .settings import RunSettings, describe
from .simulator import LoadCases


def parse():
    parser = argparse.ArgumentParser(prog="bladeloads")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    settings = RunSettings()
    if args.seed is not None:
        settings = dataclasses.replace(settings, seed=args.seed)
    if args.steps is not None:
        settings = dataclasses.replace(
            settings, optim=dataclasses.replace(settings.optim, steps=args.steps))
    return settings


def main():
    settings = parse()
    describe(settings)
    torch.manual_seed(settings.seed)
    cases = LoadCases(settings.simulator, settings.seed)
    adversary = Adversary(settings.network, settings.optim)
    monitor = FatigueMonitor(cases, settings.monitor)

    began = time.perf_counter()
    for step in range(1, settings.optim.steps + 1):
        for _ in range(settings.optim.critic_steps):
            moments, condition = cases.draw(settings.optim.batch)
            critic_loss = adversary.critic_step(moments, condition)
        generator_loss = adversary.generator_step(condition)

        if step % settings.log_every == 0:
            print(f"step {step:4d} critic {critic_loss:.4f} generator {generator_loss:.4f} "
                  f"{step / (time.perf_counter() - began):.2f} it/s", flush=True)
        if step % settings.monitor.every == 0:
            scores = monitor(adversary.averaged)
            print(f"step {step:4d} " + " ".join(f"{k} {v:.4f}" for k, v in scores.items()),
                  flush=True)


if __name__ == "__main__":
    main()
