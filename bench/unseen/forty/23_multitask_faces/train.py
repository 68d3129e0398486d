import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(12)
np.random.seed(12)

N = 700_000
STEPS = 800
BATCH = 64
D = 20

# compact "face codes" with four attributes each
codes = np.random.randn(N, D).astype(np.float32)
age = codes[:, 0] * 2 + codes[:, 1]
smile = (codes[:, 2] + codes[:, 3] > 0).astype(np.int64)
pose = np.clip((codes[:, 4] * 2 + 3).astype(np.int64), 0, 5)
light = codes[:, 5] - codes[:, 6] ** 2


class Trunk(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.lift = nn.Linear(D, 6 * 8 * 8)
        self.convs = nn.Sequential(
            nn.Conv2d(6, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16, width), nn.ReLU(),
        )

    def forward(self, x):
        return self.convs(self.lift(x).view(-1, 6, 8, 8))


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.age, self.smile = nn.Linear(512, 1), nn.Linear(512, 2)
        self.pose, self.light = nn.Linear(512, 6), nn.Linear(512, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.age(h)[:, 0], self.smile(h), self.pose(h), self.light(h)[:, 0]


def draw():
    idx = np.random.choice(N, BATCH, replace=False)
    pick = [torch.from_numpy(a[idx]) for a in (codes, age, smile, pose, light)]
    return pick[0], pick[1:]


model = MultiTask()
optim = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
running = np.zeros(4)
for step in range(1, STEPS + 1):
    x, (t_age, t_smile, t_pose, t_light) = draw()
    o_age, o_smile, o_pose, o_light = model(x)
    losses = [F.smooth_l1_loss(o_age, t_age), F.cross_entropy(o_smile, t_smile),
              F.cross_entropy(o_pose, t_pose), F.smooth_l1_loss(o_light, t_light)]
    optim.zero_grad()
    for loss in losses:
        loss.backward(retain_graph=True)
    optim.step()
    running = 0.95 * running + 0.05 * np.array([l.item() for l in losses])
    if step % 40 == 0:
        print(step, "age %.3f smile %.3f pose %.3f light %.3f" % tuple(running))
