"""Adversarial neural audio codec with residual vector quantisation.   python -m codec.train [--steps N]"""
import torch
from torch.utils.data import DataLoader

from .corpus import SegmentDataset
from .networks import Codec, WaveCritic
from .options import Options
from .solver import Solver


def main():
    opt = Options.parse()
    torch.manual_seed(opt.seed)
    loader = DataLoader(SegmentDataset(opt), batch_size=opt.batch)
    codec = Codec(opt.width, opt.dim, opt.codes, opt.quantizers)
    print(f"codec {sum(p.numel() for p in codec.parameters()) / 1e6:.2f}M parameters", flush=True)
    Solver(codec, WaveCritic(), loader, opt).fit()


if __name__ == "__main__":
    main()
