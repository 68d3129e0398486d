"""What `cudnn.benchmark` brings for kinds of convolutions: forward and backward with it off, then on.

    python bench/convolutions.py

Needs a CUDA device, and half a minute. The range of the tip untuned-convolutions for cuDNN 9 rests on it.
"""

from __future__ import annotations

import itertools
import time

import torch

MEASURED_S = 0.15
WARM_UP = 4
KINDS = {  # name: how many of which layer, channels, kernel, further options, the input's shape
    "3 dimensions, 32 channels": (4, torch.nn.Conv3d, 32, 3, {}, (4, 32, 16, 64, 64)),
    "3 dimensions, 64 channels": (4, torch.nn.Conv3d, 64, 3, {}, (2, 64, 16, 56, 56)),
    "1 dimension": (6, torch.nn.Conv1d, 256, 9, {}, (32, 256, 4096)),
    "dilated": (6, torch.nn.Conv2d, 256, 3, {"dilation": 4}, (16, 256, 56, 56)),
    "grouped": (6, torch.nn.Conv2d, 256, 3, {"groups": 32}, (32, 256, 56, 56)),
    "depth-wise": (6, torch.nn.Conv2d, 256, 7, {"groups": 256}, (32, 256, 56, 56)),
    "5 x 5": (6, torch.nn.Conv2d, 96, 5, {}, (32, 96, 64, 64)),
    "11 x 11": (6, torch.nn.Conv2d, 48, 11, {}, (16, 48, 96, 96)),
    "odd sizes": (6, torch.nn.Conv2d, 100, 3, {}, (32, 100, 61, 61)),
}


def step_s(kind: str, narrow: bool, tuned: bool) -> float:
    """Seconds of forward and backward; `narrow`: in bfloat16 and, of images, with channels last."""
    count, layer, channels, kernel, options, shape = KINDS[kind]
    torch.backends.cudnn.benchmark = tuned
    torch.manual_seed(0)
    padding = options.get("dilation", 1) * (kernel // 2)
    layers = (layer(channels, channels, kernel, padding=padding, **options) for _ in range(count))
    net, x = torch.nn.Sequential(*layers).cuda(), torch.randn(shape, device="cuda")
    if narrow and len(shape) == 4:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    steps, begin_s = -WARM_UP, 0.0
    while steps < 1 or time.perf_counter() - begin_s < MEASURED_S:
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
            y = net(x)
        y.float().square().mean().backward()
        torch.cuda.synchronize()
        steps += 1
        if steps == 0:
            begin_s = time.perf_counter()
    return (time.perf_counter() - begin_s) / steps


def main() -> None:
    """A line for each kind and number type."""
    if not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device here")
    print(f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}")
    for kind, narrow in itertools.product(KINDS, (True, False)):
        off_s, on_s = (step_s(kind, narrow, tuned) for tuned in (False, True))
        bits = "bfloat16" if narrow else "float32"
        print(f"{kind:26} {bits:9} {off_s * 1e3:6.2f} ms -> {on_s * 1e3:6.2f} ms: {off_s / on_s:.2f}")


if __name__ == "__main__":
    main()
