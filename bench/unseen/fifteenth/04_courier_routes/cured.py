"""REINFORCE for single-courier parcel routes with a moving-average baseline."""
import argparse
import logging
import math
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.distributions import Categorical

log = logging.getLogger("courier")


def sample_instances(n, stops, generator):
    """Stops around a few neighbourhood centres; the depot is stop 0."""
    centres = torch.rand(n, 4, 2, generator=generator)
    which = torch.randint(0, 4, (n, stops), generator=generator)
    xy = centres.gather(1, which.unsqueeze(-1).expand(-1, -1, 2))
    xy = (xy + 0.08 * torch.randn(n, stops, 2, generator=generator)).clamp(0, 1)
    xy[:, 0] = 0.5
    parcels = torch.randint(1, 9, (n, stops, 1), generator=generator) / 8
    parcels[:, 0] = 0
    return torch.cat([xy, parcels], -1)


def route_cost(instances, order):
    xy = instances[..., :2].gather(1, order.unsqueeze(-1).expand(-1, -1, 2))
    parcels = instances[..., 2].gather(1, order)
    legs = (xy - xy.roll(1, 1)).norm(dim=-1)
    on_board = parcels.sum(1, keepdim=True) - parcels.cumsum(1) + parcels
    return (legs * (1 + 0.05 * on_board)).sum(1)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class RouteDecoder(nn.Module):
    """Chooses the next stop from the route so far (Kool et al. style glimpse and pointer)."""

    def __init__(self, width, heads, clip=10.0):
        super().__init__()
        self.context = nn.Linear(3 * width, width)
        self.glimpse = nn.MultiheadAttention(width, heads, batch_first=True)
        self.pointer_key = nn.Linear(width, width, bias=False)
        self.clip = clip

    def prepare(self, nodes):
        n, stops, width = nodes.shape
        heads = self.glimpse.num_heads
        projected = nn.functional.linear(nodes, self.glimpse.in_proj_weight[width:], self.glimpse.in_proj_bias[width:])
        k, v = projected.view(n, stops, 2, heads, width // heads).permute(2, 0, 3, 1, 4)
        return k.contiguous(), v.contiguous(), self.pointer_key(nodes).transpose(1, 2).contiguous()

    def attend(self, query, k, v, visited):
        n, _, width = query.shape
        q = nn.functional.linear(query, self.glimpse.in_proj_weight[:width], self.glimpse.in_proj_bias[:width])
        q = q.view(n, 1, self.glimpse.num_heads, -1).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~visited[:, None, None])
        return self.glimpse.out_proj(mixed.transpose(1, 2).reshape(n, 1, width))

    def forward(self, nodes, prepared, summary, current, visited):
        k, v, keys = prepared
        depot = nodes[:, 0]
        here = nodes[torch.arange(len(nodes)), current]
        query = self.context(torch.cat([summary, depot, here], -1)).unsqueeze(1)
        glimpse = self.attend(query, k, v, visited)
        scores = (glimpse @ keys).squeeze(1) / math.sqrt(nodes.shape[-1])
        return (self.clip * torch.tanh(scores)).masked_fill(visited, float("-inf"))


class RoutePolicy(nn.Module):
    def __init__(self, width=96, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.encoder = nn.Sequential(*[EncoderLayer(width, heads) for _ in range(layers)])
        self.decoder = RouteDecoder(width, heads)

    def forward(self, instances, greedy=False):
        nodes = self.encoder(self.embed(instances))
        summary = nodes.mean(1)
        prepared = self.decoder.prepare(nodes)
        n, stops, _ = nodes.shape
        current = torch.zeros(n, dtype=torch.long)
        visited = torch.zeros(n, stops, dtype=torch.bool)
        visited[:, 0] = True
        order, log_prob, entropy = [current], 0.0, 0.0
        for _ in range(stops - 1):
            logits = self.decoder(nodes, prepared, summary, current, visited)
            policy = Categorical(logits=logits, validate_args=False)
            current = logits.argmax(-1) if greedy else policy.sample()
            if not greedy:
                log_prob = log_prob + policy.log_prob(current)
                probs = policy.probs
                entropy = entropy - (probs * probs.clamp_min(1e-9).log()).sum(-1)
            visited = visited.scatter(1, current.unsqueeze(1), True)
            order.append(current)
        return torch.stack(order, 1), log_prob, entropy


@torch.no_grad()
def validate(policy, instances, batch_size=128):
    policy.eval()
    costs = [route_cost(part, policy(part, greedy=True)[0]) for part in instances.split(batch_size)]
    policy.train()
    return torch.cat(costs).mean().item()


class BestCheckpoint:
    def __init__(self, path):
        self.path, self.best = path, float("inf")

    def update(self, policy, optimizer, step, cost):
        if cost < self.best:
            self.best = cost
            torch.save({"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, self.path)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--stops", type=int, default=30)
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--entropy", type=float, default=0.002)
    parser.add_argument("--val-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "courier_routes")
    return parser.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(args.seed)
    val_instances = sample_instances(128, args.stops, torch.Generator().manual_seed(1234))

    policy = RoutePolicy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps, args.lr * 0.1)
    checkpoint = BestCheckpoint(args.out / "best.pt")
    baseline = None
    started = time.perf_counter()
    for step in range(1, args.steps + 1):
        instances = sample_instances(args.batch_size, args.stops, generator)
        order, log_prob, entropy = policy(instances)
        cost = route_cost(instances, order).detach()
        mean_cost = cost.mean()
        baseline = mean_cost if baseline is None else 0.9 * baseline + 0.1 * mean_cost
        advantage = (cost - baseline) / cost.std().clamp_min(1e-3)
        loss = (advantage * log_prob).mean() - args.entropy * entropy.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            log.info("step %d cost %.3f loss %.3f grad %.2f (%.1fs)", step, mean_cost.item(), loss.item(),
                     norm.item(), time.perf_counter() - started)
        if step % args.val_every == 0:
            val_cost = validate(policy, val_instances)
            checkpoint.update(policy, optimizer, step, val_cost)
            log.info("step %d validation cost %.3f best %.3f", step, val_cost, checkpoint.best)
    torch.save(policy.state_dict(), args.out / "last.pt")


if __name__ == "__main__":
    main()
