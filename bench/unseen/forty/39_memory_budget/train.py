"""Knowledge distillation with an effective batch of 64 in four parts."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(27)
g = torch.Generator().manual_seed(28)
TOKENS, DIM, PARTS, PART = 24, 48, 4, 16


def encoder(dim, layers, heads=4):
    layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class Net(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.inp = nn.Linear(DIM, dim)
        self.enc = encoder(dim, layers)
        self.out = nn.Linear(dim, 12)

    def forward(self, x):
        return self.out(self.enc(self.inp(x)).mean(1))


teacher = Net(96, 2).eval().requires_grad_(False)
student = Net(96, 3)
opt = torch.optim.AdamW(student.parameters(), lr=4e-4)


def kd(s, t, temp=3.0):
    return F.kl_div(F.log_softmax(s / temp, 1), F.softmax(t / temp, 1), reduction="batchmean") * temp * temp


for update in range(1, 551):
    opt.zero_grad(set_to_none=True)
    total = 0.0
    for _ in range(PARTS):
        # fresh noisy views each time, so the answers of the teacher are never the same twice
        x = torch.randn(PART, TOKENS, DIM, generator=g)
        with torch.inference_mode():
            soft = teacher(x)
        loss = kd(student(x), soft.clone()) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(student.parameters(), 1.0)
    opt.step()
    if update % 20 == 0:
        print(f"update {update} kd {total:.5f}")
