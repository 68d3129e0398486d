"""Cloud-motion nowcasting with a warping ConvGRU.   python train.py [--steps N]"""
import argparse

import torch

from convgru import CloudMotionNet
from engine import EmaHook, Engine, ProgressHook
from objectives import NowcastObjective
from scenes import SceneStream
from settings import Settings
from verification import VerificationHook


def main():
    cfg = Settings.from_args(Settings.add_arguments(argparse.ArgumentParser()).parse_args())
    torch.manual_seed(cfg.seed)
    print(cfg.describe(), flush=True)
    model = CloudMotionNet(cfg.net, cfg.data.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, cfg.lr, total_steps=cfg.steps + 1)
    hooks = [EmaHook(cfg.ema), ProgressHook(cfg.log_every), VerificationHook(cfg.log_every)]
    Engine(model, NowcastObjective(cfg.data.future), optimizer, scheduler,
           SceneStream(cfg.data, cfg.seed), cfg.data.future, hooks).run(cfg.steps)


if __name__ == "__main__":
    main()
