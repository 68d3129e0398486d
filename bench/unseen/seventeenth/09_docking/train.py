"""Rescoring of docked poses: a small atom transformer that regresses the docking score.

    torchrun --standalone --nproc-per-node 2 train.py
"""
import argparse
import os
import shutil
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ELEMENTS = ["C", "A", "N", "NA", "OA", "O", "SA", "HD", "F", "Cl", "Br", "P"]
N_PROTEIN = 1000
N_POCKET = 64


def write_pose(path, rng):
    """One complex in a pdbqt-like layout, protein atoms first, then the ligand."""
    n_lig = int(rng.integers(16, 33))
    kinds = rng.integers(0, len(ELEMENTS), N_PROTEIN + n_lig)
    shell = rng.normal(size=(N_POCKET, 3))
    shell = shell / np.linalg.norm(shell, axis=1, keepdims=True) * rng.uniform(4, 9, (N_POCKET, 1))
    bulk = rng.normal(size=(N_PROTEIN - N_POCKET, 3))
    bulk = bulk / np.linalg.norm(bulk, axis=1, keepdims=True) * rng.uniform(11, 30, (len(bulk), 1))
    ligand = rng.normal(0, 2.2, (n_lig, 3))
    xyz = np.concatenate([shell, bulk, ligand])
    charge = rng.normal(0, 0.25, len(xyz))
    dist_ = np.linalg.norm(shell[:, None] - ligand[None], axis=-1)
    score = -0.6 * np.exp(-((dist_ - 3.8) ** 2)).sum() ** 0.5
    score += 4.0 * (charge[:N_POCKET, None] * charge[None, N_PROTEIN:] / dist_).sum()
    with open(path, "w") as f:
        f.write(f"REMARK VINA RESULT: {score:10.4f}\n")
        for i, (k, p, q) in enumerate(zip(kinds, xyz, charge)):
            chain, residue = ("A", "RES") if i < N_PROTEIN else ("L", "LIG")
            f.write(f"ATOM  {i + 1:5d}  {ELEMENTS[k]:<3s} {residue} {chain}{1 + i // 8:4d}    "
                    f"{p[0]:8.3f}{p[1]:8.3f}{p[2]:8.3f}  1.00  0.00    {q:6.3f} {ELEMENTS[k]:<2s}\n")
        f.write("TER\nEND\n")


def read_pose(path):
    kinds, xyz, charge, in_ligand, score = [], [], [], [], 0.0
    with open(path) as f:
        for line in f:
            if line.startswith("REMARK VINA RESULT"):
                score = float(line.split(":")[1])
            elif line.startswith(("ATOM", "HETATM")):
                kinds.append(ELEMENTS.index(line[77:79].strip()))
                xyz.append([float(line[30:38]), float(line[38:46]), float(line[46:54])])
                charge.append(float(line[70:76]))
                in_ligand.append(line[21] == "L")
    xyz, in_ligand = torch.tensor(xyz), torch.tensor(in_ligand)
    gap = torch.cdist(xyz, xyz[in_ligand]).amin(1).masked_fill(in_ligand, -1.0)
    keep = gap.argsort()[: N_POCKET + int(in_ligand.sum())]
    return (torch.tensor(kinds)[keep], xyz[keep], torch.tensor(charge)[keep], in_ligand[keep],
            torch.tensor(score))


class PoseDataset(Dataset):
    def __init__(self, folder, names):
        self.paths = [os.path.join(folder, n) for n in names]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return read_pose(self.paths[i])


def collate(poses):
    longest = max(len(p[0]) for p in poses)
    kinds = torch.zeros(len(poses), longest, dtype=torch.long)
    feats = torch.zeros(len(poses), longest, 5)
    pad = torch.ones(len(poses), longest, dtype=torch.bool)
    for i, (k, x, q, lig, _) in enumerate(poses):
        n = len(k)
        kinds[i, :n] = k
        feats[i, :n, :3] = x / 5.0
        feats[i, :n, 3] = q
        feats[i, :n, 4] = lig.float()
        pad[i, :n] = False
    return kinds, feats, pad, torch.stack([p[4] for p in poses])


class AtomBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, h, bias):
        b, n, d = h.shape
        x = self.norm1(h)
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, n, d)
        h = h + self.out(x)
        return h + self.down(F.gelu(self.up(self.norm2(h))))


class PoseScorer(nn.Module):
    def __init__(self, dim=48, depth=8, heads=4):
        super().__init__()
        self.kind = nn.Embedding(len(ELEMENTS), dim)
        self.feat = nn.Linear(5, dim)
        self.blocks = nn.ModuleList(AtomBlock(dim, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, kinds, feats, pad):
        h = self.kind(kinds) + self.feat(feats)
        bias = torch.zeros(pad.shape, device=h.device).masked_fill(pad, float("-inf"))[:, None, None, :]
        for block in self.blocks:
            h = block(h, bias)
        keep = (~pad).unsqueeze(-1).float()
        return self.head((h * keep).sum(1) / keep.sum(1)).squeeze(-1)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        if param.grad is not None:
            dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
            param.grad /= size


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = torch.zeros(2)
    for kinds, feats, pad, score in loader:
        total += torch.stack([(model(kinds, feats, pad) - score).pow(2).sum(), torch.tensor(float(len(score)))])
    model.train()
    dist.all_reduce(total)
    return (total[0] / total[1]).sqrt().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--poses", type=int, default=1600)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    shared = [tempfile.mkdtemp(prefix="poses_") if rank == 0 else None]
    dist.broadcast_object_list(shared, src=0)
    folder = shared[0]
    if rank == 0:
        rng = np.random.default_rng(5)
        for i in range(args.poses):
            write_pose(os.path.join(folder, f"pose_{i:05d}.pdbqt"), rng)
    dist.barrier()

    names = sorted(n for n in os.listdir(folder) if n.endswith(".pdbqt"))
    n_val = len(names) // 12
    train_set, val_set = PoseDataset(folder, names[n_val:]), PoseDataset(folder, names[:n_val])
    sampler = DistributedSampler(train_set, world, rank, shuffle=True, drop_last=True)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, collate_fn=collate, drop_last=True)
    val_loader = DataLoader(val_set, 2 * args.batch_size, collate_fn=collate,
                            sampler=DistributedSampler(val_set, world, rank, shuffle=False))

    model = PoseScorer()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    step, done = 0, False
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        running = 0.0
        for kinds, feats, pad, score in train_loader:
            loss = F.smooth_l1_loss(model(kinds, feats, pad), score)
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model)
            optimizer.step()
            running = 0.98 * running + 0.02 * loss.item()
            step += 1
            if rank == 0 and step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {running / (1 - 0.98 ** step):.4f}", flush=True)
            if args.max_steps and step >= args.max_steps:
                done = True
                break
        rmse = validate(model, val_loader)
        if rank == 0:
            print(f"epoch {epoch} val rmse {rmse:.4f}", flush=True)
            torch.save(model.state_dict(), os.path.join(folder, "scorer.pt"))
        if done:
            break
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
