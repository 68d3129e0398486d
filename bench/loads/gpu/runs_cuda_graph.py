"""Forward and backward as CUDA graphs, captured before the loop; on a CPU the same without them."""

import common
import torch

args = common.arguments()
width = common.sized(args, 512, 32)
model = common.layers(width, 16).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(128, width, device=args.device)
trained = torch.cuda.make_graphed_callables(model, (x.clone(),)) if args.device == "cuda" else model
losses = []
for _ in common.steps(args, losses):
    loss = trained(x).square().mean()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach().clone())
