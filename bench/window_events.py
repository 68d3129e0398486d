"""How many events a profiler window has for each node of autograd's graph, and what an event of it costs.

    python bench/window_events.py

Of a plain window over two steps without warm-up: start, stop, export and slowdown, for steps of many and few
operations. `perfdoctor/probe/profiler/budget.py` foresees windows by these figures.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

STEPS = 2
Load = tuple[nn.Module, Callable[[], Tensor]]


def tag_loop() -> Load:
    """A CRF's forward algorithm, by loops over time and tags."""
    scores, emissions = nn.Linear(13, 13), torch.randn(64, 30, 13)

    def loss() -> Tensor:
        alpha = emissions[:, 0]
        for t in range(1, 30):
            sums = [alpha + scores.weight[tag] + emissions[:, t, tag, None] for tag in range(13)]
            alpha = torch.stack([torch.logsumexp(tag, 1) for tag in sums], 1)
        return alpha.logsumexp(1).sum()

    return scores, loss


def cells() -> Load:
    """An LSTM's cell, by a loop over time."""
    cell = nn.LSTMCell(16, 16)

    def loss() -> Tensor:
        state = torch.zeros(4, 16), torch.zeros(4, 16)
        for _ in range(50):
            state = cell(torch.randn(4, 16), state)
        return state[0].sum()

    return cell, loss


def samples() -> Load:
    """A loss that goes over the samples of a batch."""
    layer, rows = nn.Linear(16, 4), torch.randn(48, 16)

    def loss() -> Tensor:
        out = layer(rows)
        return torch.stack([(out[i] - rows[i, :4]).square().mean() for i in range(48)]).sum()

    return layer, loss


def transformer() -> Load:
    """Layers of a Transformer's encoder."""
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 4)
    return layers, lambda: layers(torch.randn(4, 16, 32)).sum()


def convolutions() -> Load:
    """Convolutions with batch norms: few nodes, for which the modules are counted."""
    layers = [layer for _ in range(8) for layer in (nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())]
    net = nn.Sequential(*layers)
    return net, lambda: net(torch.randn(4, 8, 32, 32)).sum()


def measure(load: Load, path: Path) -> tuple[int, float, float]:
    """(nodes of a step, events of it, seconds that each event cost)."""
    model, loss = load
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> float:
        begin = time.process_time()  # others that have the cores do not count
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        return time.process_time() - begin

    plain_s = min(step() for _ in range(5))
    before = torch.autograd._get_sequence_nr()
    step()
    nodes = torch.autograd._get_sequence_nr() - before
    recorded = profile(activities=[ProfilerActivity.CPU])
    begin = time.process_time()
    recorded.start()
    for _ in range(STEPS):
        step()
    recorded.stop()
    recorded.export_chrome_trace(str(path))
    took_s = time.process_time() - begin - STEPS * plain_s
    events = sum(event.get("ph") == "X" for event in json.loads(path.read_bytes())["traceEvents"])
    return nodes, events / STEPS, took_s / events


def main() -> None:
    """Measure them all."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for make in (convolutions, tag_loop, cells, samples, transformer):
            nodes, events, event_s = measure(make(), Path(folder) / "trace.json")
            counted = f"{nodes:5} nodes {events:6.0f} events, {events / nodes:4.1f} a node"
            print(f"{make.__name__:13} {counted}, {event_s * 1e6:4.1f} us each")


if __name__ == "__main__":
    main()
