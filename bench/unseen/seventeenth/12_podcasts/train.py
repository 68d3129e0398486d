"""Podcast episode recommender: listener tower plus episode tower over a co-listening graph, BPR loss."""
import argparse
import json
import logging
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("podrec")


def simulate_logs(folder, n_listeners, n_episodes, n_plays, history, neighbours, seed):
    """Listening log with latent topics; also the co-listening neighbours and a recent history for each listener."""
    rng = np.random.default_rng(seed)
    topics = 60
    episode_topic = rng.integers(0, topics, n_episodes)
    by_topic = [np.flatnonzero(episode_topic == t) for t in range(topics)]
    taste = rng.integers(0, topics, (n_listeners, 3))

    def draw(topic):
        out = np.empty(topic.shape, np.int64)
        skew = rng.random(topic.shape) ** 2
        for t in range(topics):
            where = topic == t
            out[where] = by_topic[t][(skew[where] * len(by_topic[t])).astype(np.int64)]
        return out

    listeners = rng.integers(0, n_listeners, n_plays)
    plays = draw(taste[listeners, rng.integers(0, 3, n_plays)])
    recent = draw(taste[np.arange(n_listeners)[:, None], rng.integers(0, 3, (n_listeners, history))])
    graph = draw(np.repeat(episode_topic[:, None], neighbours, axis=1))
    np.savez(folder / "log.npz", listeners=listeners, plays=plays, recent=recent, graph=graph)


class PlayLog(Dataset):
    def __init__(self, listeners, plays, n_episodes, negatives, seed):
        self.listeners, self.plays = torch.from_numpy(listeners), torch.from_numpy(plays)
        g = torch.Generator().manual_seed(seed)
        self.negatives = torch.randint(0, n_episodes, (len(plays), negatives), generator=g)

    def __len__(self):
        return len(self.plays)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return self.listeners[idx], self.plays[idx], self.negatives[idx]


class TwoTower(nn.Module):
    def __init__(self, n_listeners, n_episodes, graph, recent, dim=64, hidden=256):
        super().__init__()
        self.listener_emb = nn.Embedding(n_listeners, dim)
        self.episode_emb = nn.Embedding(n_episodes, dim)
        nn.init.normal_(self.listener_emb.weight, std=0.1)
        nn.init.normal_(self.episode_emb.weight, std=0.1)
        self.listener_mlp = nn.Sequential(nn.Linear(2 * dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.episode_mlp = nn.Sequential(nn.Linear(2 * dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.register_buffer("graph", torch.from_numpy(graph), persistent=False)
        self.register_buffer("recent", torch.from_numpy(recent), persistent=False)

    def listener(self, ids):
        own = self.listener_emb(ids)
        heard = self.episode_emb(self.recent[ids]).mean(-2)
        return F.normalize(self.listener_mlp(torch.cat([own, heard], -1)), dim=-1)

    def episode(self, ids):
        own = self.episode_emb(ids)
        around = self.episode_emb(self.graph[ids]).mean(-2)
        return F.normalize(self.episode_mlp(torch.cat([own, around], -1)), dim=-1)

    def forward(self, listeners, positives, negatives):
        u = self.listener(listeners)
        v = self.episode(torch.cat([positives[:, None], negatives], 1))
        scores = (u[:, None] * v).sum(-1) * 8.0
        return scores[:, 0], scores[:, 1:]


def bpr(pos, neg):
    return -F.logsigmoid(pos[:, None] - neg).mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    auc, losses = [], []
    for listeners, positives, negatives in loader:
        pos, neg = model(listeners, positives, negatives)
        losses.append(bpr(pos, neg))
        auc.append((pos[:, None] > neg).float().mean())
    model.train()
    return torch.stack(losses).mean().item(), torch.stack(auc).mean().item()


def parse_args():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--listeners", type=int, default=30_000)
    ap.add_argument("--episodes", type=int, default=60_000)
    ap.add_argument("--plays", type=int, default=300_000)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--negatives", type=int, default=4)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--max-steps", type=int, default=2400)
    ap.add_argument("--eval-every", type=int, default=400)
    ap.add_argument("--seed", type=int, default=11)
    return ap.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(args.seed)
    workdir = Path(tempfile.mkdtemp(prefix="podrec_"))
    simulate_logs(workdir, args.listeners, args.episodes, args.plays, history=8, neighbours=6, seed=args.seed)
    with np.load(workdir / "log.npz") as f:
        listeners, plays, recent, graph = f["listeners"], f["plays"], f["recent"], f["graph"]

    cut = len(plays) - 8192
    train_set = PlayLog(listeners[:cut], plays[:cut], args.episodes, args.negatives, args.seed)
    val_set = PlayLog(listeners[cut:], plays[cut:], args.episodes, 20, args.seed + 1)
    as_is = lambda batch: batch  # __getitems__ already returns a batch
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True, collate_fn=as_is)
    val_loader = DataLoader(val_set, batch_size=1024, collate_fn=as_is)

    accelerator = Accelerator(cpu=True)
    model = TwoTower(args.listeners, args.episodes, graph, recent)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=100)
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, val_loader, scheduler)

    log.info("parameters: %.1f M, plays: %d", sum(p.numel() for p in model.parameters()) / 1e6, cut)
    step, running, best, history = 0, 0.0, 0.0, []
    while step < args.max_steps:
        for listeners_b, positives, negatives in train_loader:
            pos, neg = model(listeners_b, positives, negatives)
            loss = bpr(pos, neg)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            running += loss.item()
            step += 1
            if step % 50 == 0:
                log.info("step %d loss %.5f lr %.4f", step, running / 50, scheduler.get_last_lr()[0])
                running = 0.0
            if step % args.eval_every == 0 or step == args.max_steps:
                val_loss, auc = validate(model, val_loader)
                history.append({"step": step, "val_loss": val_loss, "auc": auc})
                log.info("step %d val_loss %.5f auc %.4f", step, val_loss, auc)
                if auc > best:
                    best = auc
                    torch.save(accelerator.unwrap_model(model).state_dict(), workdir / "best.pt")
            if step >= args.max_steps:
                break
    (workdir / "history.json").write_text(json.dumps(history, indent=1))
    log.info("finished, best auc %.4f, files in %s", best, workdir)


if __name__ == "__main__":
    main()
