"""Which service wrote this line? A byte level transformer over syslog messages (Lightning)."""
import argparse
import random
import tempfile
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")

SERVICES = {
    "sshd": ["Accepted publickey for {u} from {ip} port {n} ssh2", "Invalid user {u} from {ip}", "Connection closed by {ip} [preauth]"],
    "kernel": ["[{n}.{n}] usb {n}-1: new high-speed device number {n}", "[{n}.{n}] TCP: out of memory -- consider tuning tcp_mem", "audit: type={n} pid={n}"],
    "cron": ["({u}) CMD (run-parts /etc/cron.hourly)", "({u}) CMD (/usr/lib/sa/sa1 {n} 1)"],
    "postfix": ["{h}: to=<{u}@{d}>, relay={d}[{ip}]:25, delay={n}, status=sent", "connect from unknown[{ip}]", "{h}: removed"],
    "nginx": ["{ip} - - GET /{u}/{n} HTTP/1.1 200 {n}", "upstream timed out ({n}: {h}) while reading from {ip}, host: {d}"],
    "dhcpd": ["DHCPDISCOVER from {h} via eth{n}", "DHCPACK on {ip} to {h} via eth{n}"],
    "systemd": ["Started Session {n} of user {u}.", "Reached target Multi-User System.", "{u}.service: main process exited, code={n}"],
    "java": ["WARN  [{u}-{n}] o.{u}.Pool - slow statement: {n} ms", "INFO  [main] c.{u}.{u}.App - started in {n} s"],
}
LABELS = sorted(SERVICES)
USERS = "root alice backup postgres jenkins deploy mara tomcat git www ldap eve".split()
DOMAINS = "example.org mail.test.net intra.corp lab.edu".split()


def make_line(rng):
    service = rng.choice(LABELS)
    fields = {
        "u": rng.choice(USERS), "d": rng.choice(DOMAINS), "n": rng.randrange(1, 99999), "h": f"{rng.getrandbits(40):010X}",
        "ip": ".".join(str(rng.randrange(1, 255)) for _ in range(4)),
    }
    clock = f"2024-11-{rng.randrange(1, 31):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}.{rng.randrange(10**6):06d}+01:00"
    text = f"{clock} node{rng.randrange(100):02d}.cluster " + rng.choice(SERVICES[service]).format(**fields)
    if service == "java" and rng.random() < 0.005:
        text += "".join(f" at org.{rng.choice(USERS)}.Task.run(Task.java:{rng.randrange(900)})" for _ in range(rng.randrange(2, 5)))
    if rng.random() < 0.1:
        cut = rng.randrange(len(text))
        text = text[:cut] + rng.choice("#?~*") + text[cut + 1:]
    return text.encode(), LABELS.index(service)


class Lines(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [make_line(rng) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        text, label = self.rows[i]
        return torch.frombuffer(bytearray(text), dtype=torch.uint8).long() + 1, label


class Collate:
    def __init__(self, max_bytes):
        self.max_bytes = max_bytes

    def __call__(self, rows):
        width = min(self.max_bytes, max(len(seq) for seq, _ in rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        for i, (seq, _) in enumerate(rows):
            seq = seq[: self.max_bytes]
            ids[i, : len(seq)] = seq
        return ids, torch.tensor([label for _, label in rows])


class LineData(L.LightningDataModule):
    def __init__(self, batch, max_bytes):
        super().__init__()
        self.batch, self.collate = batch, Collate(max_bytes)

    def setup(self, stage=None):
        self.train, self.val = Lines(12_000, 0), Lines(256, 1)

    def train_dataloader(self):
        return DataLoader(self.train, self.batch, shuffle=True, drop_last=True, collate_fn=self.collate)

    def val_dataloader(self):
        return DataLoader(self.val, 128, collate_fn=self.collate)


class ByteTagger(L.LightningModule):
    def __init__(self, dim=64, heads=4, layers=2, max_bytes=192, lr=1e-3, steps=240):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(257, dim, padding_idx=0)
        self.position = nn.Parameter(torch.randn(max_bytes, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, 0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(LABELS))

    def forward(self, ids):
        pad = ids == 0
        h = self.embed(ids) + self.position[: ids.shape[1]]
        h = self.norm(self.encoder(h, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).to(h.dtype)
        return self.head((h * keep).sum(1) / keep.sum(1))

    def training_step(self, batch, _):
        ids, label = batch
        loss = F.cross_entropy(self(ids), label, label_smoothing=0.05)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        ids, label = batch
        logits = self(ids)
        self.log("val_loss", F.cross_entropy(logits, label), prog_bar=True)
        self.log("val_acc", (logits.argmax(-1) == label).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=self.hparams.steps)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Report(L.Callback):
    def on_validation_end(self, trainer, module):
        m = trainer.callback_metrics
        if not trainer.sanity_checking:
            print(f"step {trainer.global_step}: train {m['train_loss']:.3f} val {m['val_loss']:.3f} acc {m['val_acc']:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--max-bytes", type=int, default=192)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    L.seed_everything(3, verbose=False)
    out = tempfile.mkdtemp(prefix="syslines_")
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_steps=args.steps, gradient_clip_val=1.0, val_check_interval=80,
        log_every_n_steps=20, num_sanity_val_steps=0, enable_progress_bar=False, enable_model_summary=False,
        logger=CSVLogger(out), default_root_dir=out,
        callbacks=[Report(), LearningRateMonitor(), ModelCheckpoint(out, monitor="val_acc", mode="max")],
    )
    model = ByteTagger(max_bytes=args.max_bytes, lr=args.lr, steps=args.steps)
    trainer.fit(model, datamodule=LineData(args.batch, args.max_bytes))


if __name__ == "__main__":
    main()
