"""Attention written out: all scores go to memory and come back."""

# expect: verdict=compute finding=materialised-attention

import common
import torch

args = common.arguments()
batch, heads, width = common.sized(args, (8, 16, 64), (2, 2, 8))
length = common.sized(args, 1024, 16)
project = torch.nn.Linear(heads * width, 3 * heads * width).to(args.device)
merge = torch.nn.Linear(heads * width, heads * width).to(args.device)
optimizer = torch.optim.AdamW([*project.parameters(), *merge.parameters()], lr=1e-4, fused=True)
x = torch.randn(batch, length, heads * width, device=args.device)


def written_out(query, key, value):
    scores = query @ key.transpose(-2, -1) / width**0.5
    weights = torch.softmax(scores, dim=-1)  # <- finding
    return weights @ value


for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        query, key, value = project(x).view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4)
        mixed = written_out(query, key, value)
        # cured: mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        y = merge(mixed.transpose(1, 2).reshape(x.shape))
    loss = (y.float() - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
