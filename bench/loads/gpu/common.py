"""What the scripts beside this one share: their arguments, and a loop that knows how long its steps took."""

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import time

import torch

WARM_UP = 20  # steps before the measured ones: libraries are loaded, kernels chosen, memory is allocated
TRACED = 8  # steps after them under a profiler of the script's own, with --trace


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=200, help="measured, after those of warm-up")
    parser.add_argument("--seconds", type=float, help="measure for so long, in place of --steps")
    parser.add_argument("--figures", metavar="FILE", help="write what was measured into this file")
    parser.add_argument("--trace", metavar="FILE", help="record further steps with torch.profiler")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.device == "cpu":
        torch.set_num_threads(1)
    return args


def sized(args, on_device, tiny):
    """A size that keeps a device busy, or one for trying the script out on a CPU."""
    return on_device if args.device == "cuda" else tiny


def made(args):
    """How many steps `steps` makes."""
    return WARM_UP + args.steps + (TRACED if args.trace else 0)


def settle(args):
    if args.device == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def alone():
    """The device for this script only, where several share a machine: see --lanes of bench/gpu.py."""
    path = os.environ.get("PERFDOCTOR_GPU_LOCK")
    with open(path or os.devnull, "w", encoding="utf-8") as file:
        if path:
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if path:
                fcntl.flock(file, fcntl.LOCK_UN)  # closing leaves it to forked workers


def steps(args, losses=(), samples=1):
    """Number after number, of so many samples each, alone on the device."""
    with alone():
        yield from measured(args, losses, samples)


def measured(args, losses, samples):
    """Waits for the device after warm-up and at the end, and writes what was seen in between."""
    walls, cpus, events = [], [], []
    done, began_s, begin_ns = 0, 0.0, time.perf_counter_ns()
    while args.seconds is None or done <= WARM_UP or time.perf_counter() < began_s + args.seconds:
        if args.seconds is None and done == WARM_UP + args.steps:
            break
        if done == WARM_UP:
            settle(args)
            began_s = time.perf_counter()
        if args.figures and args.device == "cuda":
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
        yield done
        done += 1
        walls.append(time.perf_counter_ns())
        cpus.append(time.thread_time_ns())
    settle(args)
    measured_s = time.perf_counter() - began_s
    ends = [*walls, *((yield from traced(args, done)) if args.trace else [])]
    figures = {
        "step_s": measured_s / (done - WARM_UP),
        "samples": samples,
        "begin_ns": begin_ns,
        "ends_ns": ends,
        "wall_ns": walls,
        "cpu_ns": cpus,
        "elapsed_ms": [one.elapsed_time(next_one) for one, next_one in itertools.pairwise(events)],
        "losses": torch.stack([loss.float() for loss in losses]).tolist() if losses else [],
        **memory(args),
    }
    if args.figures:
        with open(args.figures, "w", encoding="utf-8") as file:
            json.dump(figures, file)


def traced(args, done):
    """Goes on under a profiler; when each of its steps ended."""
    ends = []
    activities = [torch.profiler.ProfilerActivity.CPU]
    if args.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        for step in range(done, done + TRACED):
            yield step
            ends.append(time.perf_counter_ns())
    profiler.export_chrome_trace(args.trace)
    return ends


def memory(args):
    """The most that torch allocated on the device, and what all programs hold of it now."""
    if args.device == "cpu":
        return {}
    free, total = torch.cuda.mem_get_info()
    return {"allocated_bytes": torch.cuda.max_memory_allocated(), "used_bytes": total - free}


def convolutions(channels, count):
    """Convolutions and hardly anything else: images in, ten classes out."""
    sizes = [3, *[channels] * count]
    pairs = itertools.pairwise(sizes)
    return torch.nn.Sequential(
        *(part for pair in pairs for part in (torch.nn.Conv2d(*pair, 3, padding=1), torch.nn.ReLU())),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(channels, 10),
    )


def residual_net(channels, blocks):
    """A small ResNet: images in, ten classes out."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, channels, 3, padding=1, bias=False),
        *(Residual(channels) for _ in range(blocks)),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(channels, 10),
    )


class Residual(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.nn.functional.relu(x + self.layers(x))


def layers(width, count):
    """A multilayer perceptron with as many outputs as inputs."""
    return torch.nn.Sequential(
        *(part for _ in range(count) for part in (torch.nn.Linear(width, width), torch.nn.ReLU()))
    )


def endless(loader):
    """Epoch after epoch."""
    while True:
        yield from loader


class Ready(torch.utils.data.Dataset):
    """Batches that lie in memory already: for loaders with batch_size=None."""

    def __init__(self, *shape, count=8):
        self.batches = [torch.randn(shape) for _ in range(count)]

    def __len__(self):
        return 64 * len(self.batches)

    def __getitem__(self, index):
        return self.batches[index % len(self.batches)]
