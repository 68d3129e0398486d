"""VGG-like network on synthetic textures; all images fit memory as uint8."""
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCH, CLASSES = 1100, 16, 8


def textures(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    grid = torch.arange(32).float()
    freq = 0.15 + 0.1 * y.float()
    phase = torch.rand(n, 2, generator=g) * 6.28
    a = torch.sin(freq[:, None] * grid + phase[:, :1])
    b = torch.sin(freq[:, None] * grid * 1.3 + phase[:, 1:])
    img = (a[:, :, None] * b[:, None, :] + 1) * 100
    img = img[:, None] + 20 * torch.randn(n, 3, 32, 32, generator=g)
    return img.clamp(0, 255).to(torch.uint8), y


def stage(cin, cout, n):
    layers = []
    for i in range(n):
        layers += [nn.Conv2d(cin if i == 0 else cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
    return layers + [nn.MaxPool2d(2)]


def main():
    torch.manual_seed(1)
    images, labels = textures(3000, 1)
    model = nn.Sequential(*stage(3, 32, 2), *stage(32, 64, 2), *stage(64, 128, 2), nn.Flatten(),
                          nn.Linear(128 * 16, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, CLASSES))
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=STEPS)
    order = torch.randperm(len(images))
    for step in range(STEPS):
        at = (step * BATCH) % (len(images) - BATCH)
        idx = order[at:at + BATCH]
        x = images[idx].float().sub_(128).div_(64)
        loss = F.cross_entropy(model(x), labels[idx], label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
