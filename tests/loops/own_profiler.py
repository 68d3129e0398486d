"""The script profiles itself with torch.profiler, on a schedule."""

# truth: steps=40 marker=update stderr=varies
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 16), torch.randint(2, (32,))
seen = []


def collect(profiler):
    seen.append(sum(event.name == "aten::linear" for event in profiler.events()))


plan = schedule(wait=2, warmup=2, active=3, repeat=3)
with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=collect) as profiler:
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        profiler.step()
print(f"loss {loss.item():.6f} linears {seen}")
