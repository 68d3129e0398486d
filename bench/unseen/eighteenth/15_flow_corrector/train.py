"""Learned closure for a coarse flow solver, trained through the solver.  python train.py [--iters N]"""
import argparse

import torch

from flow.data import ReferenceBank
from flow.grid import Grid
from flow.learner import Learner
from flow.networks import REGISTRY
from flow.solver import CoarseSolver


def options():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cells", type=int, default=36)
    ap.add_argument("--nu", type=float, default=2e-3)
    ap.add_argument("--dt", type=float, default=0.04)
    ap.add_argument("--unroll", type=int, default=3)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--iters", type=int, default=260)
    ap.add_argument("--net", choices=sorted(REGISTRY), default="resnet")
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--seed", type=int, default=2)
    return ap.parse_args()


if __name__ == "__main__":
    opt = options()
    torch.manual_seed(opt.seed)
    grid = Grid(opt.cells)
    solver = CoarseSolver(grid, opt.nu, opt.dt)
    bank = ReferenceBank(grid, opt.nu, opt.dt, opt.seed)
    net = REGISTRY[opt.net](opt.width)
    Learner(solver, net, bank, opt).run()
