"""Deep regression net; keeps a resumable checkpoint and checks the held-out error now and then."""
import os
import tempfile

import torch
import torch.nn as nn

STEPS = 1500
SAVE_AND_CHECK_EVERY = 500


def target(x):
    return torch.sin(x[:, :8].sum(1)) + (x[:, 8] * x[:, 9]).tanh()


def save(path, model, opt, step):
    tmp = path + ".part"
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step, "rng": torch.get_rng_state()}, tmp)
    os.replace(tmp, path)


@torch.no_grad()
def held_out(model, x, y):
    model.eval()
    err = nn.functional.mse_loss(model(x).squeeze(1), y).item()
    model.train()
    return err


def main():
    torch.manual_seed(71)
    g = torch.Generator().manual_seed(72)
    x = torch.randn(20_000, 64, generator=g)
    y = target(x)
    x_val, y_val = x[:1000], y[:1000]
    x, y = x[1000:], y[1000:]
    dims = [64, 1024, 1024, 512]
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(dims[-1], 1))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.02, fused=True)
    with tempfile.TemporaryDirectory() as tmp:
        for step in range(1, STEPS + 1):
            idx = torch.randint(0, len(x), (160,), generator=g)
            loss = nn.functional.mse_loss(model(x[idx]).squeeze(1), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if step % SAVE_AND_CHECK_EVERY == 0:
                save(os.path.join(tmp, "last.pt"), model, opt, step)
                print(f"step {step} train {loss.item():.4f} held out {held_out(model, x_val, y_val):.4f}")


if __name__ == "__main__":
    main()
