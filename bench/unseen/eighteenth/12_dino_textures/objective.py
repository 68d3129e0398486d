import torch
import torch.nn.functional as F
from torch import nn


class DinoLoss(nn.Module):
    def __init__(self, prototypes, student_temp, teacher_temp, center_momentum):
        super().__init__()
        self.ts, self.tt, self.m = student_temp, teacher_temp, center_momentum
        self.register_buffer("center", torch.zeros(1, prototypes))

    def forward(self, student, teacher, n_student, n_teacher):
        logp = F.log_softmax(student / self.ts, -1).chunk(n_student)
        target = F.softmax((teacher - self.center) / self.tt, -1).chunk(n_teacher)
        terms = [-(q * p).sum(-1).mean()
                 for i, q in enumerate(target) for j, p in enumerate(logp) if i != j]
        self.center.lerp_(teacher.mean(0, keepdim=True), 1 - self.m)
        return torch.stack(terms).mean()
