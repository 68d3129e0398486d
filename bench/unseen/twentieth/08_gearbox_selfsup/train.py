import json
from itertools import islice
from types import SimpleNamespace

import torch

from learner import Bootstrap, centroid_probe
from nets import Student
from signals import GearboxBank, TwoViews


def main():
    with open("options.json") as f:
        o = SimpleNamespace(**json.load(f))
    torch.manual_seed(o.seed)
    bank = GearboxBank(o.windows, o.length, o.seed)
    held = GearboxBank(128, o.length, o.seed + 1)
    views = TwoViews(o.crop, o.seed + 2)
    student = Student(o.dim, o.out, crop=o.crop, patch=o.patch, depth=o.depth, heads=o.heads)
    learner = Bootstrap(student, o.lr, o.decay, o.wd)

    stream = bank.epochs(o.batch, o.seed)
    window = torch.zeros(())
    for step in range(1, o.steps + 1):
        chunks = [views(x) for x in islice(stream, o.accumulate)]
        window += learner.update(chunks)
        if step % o.report == 0:
            print(f"step {step}: loss {window.item() / o.report:.4f}", flush=True)
            window.zero_()
        if step % o.probe == 0:
            print(f"  centroid accuracy {centroid_probe(student.encoder, held.x, held.y, o.crop):.3f}", flush=True)


if __name__ == "__main__":
    main()
