"""A compiled transformer with fused attention in 16 bits."""

# expect: verdict=healthy finding=none

import common
import torch


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project, self.merge = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.wide = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        mixed = self.project(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(y.transpose(1, 2).reshape(x.shape))
        return x + self.wide(self.between(x))


args = common.arguments()
batch, length, width, heads = common.sized(args, (16, 1024, 1024, 16), (2, 16, 16, 2))
model = torch.nn.Sequential(*(Block(width, heads) for _ in range(4))).to(args.device)
trained = torch.compile(model) if args.device == "cuda" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(batch, length, width, device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        y = trained(x)
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
