"""A batch comes as many small tensors, each of which is copied by itself."""

# expect: verdict=transfer finding=many-small-copies

import common
import torch

args = common.arguments()
parts = [torch.randn(256) for _ in range(common.sized(args, 128, 8))]
model = common.layers(256, 4).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
for _ in common.steps(args):
    x = torch.stack([part.to(args.device) for part in parts])  # <- finding
    # cured: x = torch.stack(parts).to(args.device)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
