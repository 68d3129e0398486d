"""Mixed precision with a GradScaler, whose first scale is too large: some updates are skipped."""

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, 6).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
dtype = torch.float16 if args.device == "cuda" else torch.bfloat16
scaler = torch.amp.GradScaler(args.device, init_scale=2.0**40)
x = torch.randn(256, width, device=args.device)
losses = []
for _ in common.steps(args, losses):
    with torch.autocast(args.device, dtype):
        loss = model(x).float().square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.detach())
