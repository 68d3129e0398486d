from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class ResUnit(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.a = nn.Conv1d(c, c, 5, dilation=dilation, padding=2 * dilation)
        self.b = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.b(F.elu(self.a(F.elu(x))))


def down(cin, cout, stride):
    return [ResUnit(cin, 1), ResUnit(cin, 3), nn.ELU(), nn.Conv1d(cin, cout, 2 * stride, stride, stride // 2)]


def up(cin, cout, stride):
    return [nn.ELU(), nn.ConvTranspose1d(cin, cout, 2 * stride, stride, stride // 2), ResUnit(cout, 1), ResUnit(cout, 3)]


class ResidualVQ(nn.Module):
    def __init__(self, dim, codes, count):
        super().__init__()
        self.books = nn.Parameter(torch.randn(count, codes, dim) * 0.1)

    def forward(self, z):
        residual, total, picks, penalty = z, torch.zeros_like(z), [], 0.0
        for book in self.books:
            flat = residual.detach()
            dist = (book ** 2).sum(1) - 2 * flat @ book.t()
            index = dist.argmin(-1)
            code = F.embedding(index, book)
            penalty = penalty + F.mse_loss(code, residual.detach()) + 0.25 * F.mse_loss(residual, code.detach())
            total, residual = total + code, residual - code.detach()
            picks.append(index)
        return z + (total - z).detach(), torch.stack(picks), penalty


class CodecOutput(NamedTuple):
    wav: torch.Tensor
    indices: torch.Tensor
    vq_penalty: torch.Tensor


class Codec(nn.Module):
    def __init__(self, width, dim, codes, quantizers, strides=(4, 4, 4, 2)):
        super().__init__()
        ws = [width * 2 ** min(i, 3) for i in range(len(strides) + 1)]
        enc = [nn.Conv1d(1, width, 7, padding=3)]
        for a, b, s in zip(ws[:-1], ws[1:], strides):
            enc += down(a, b, s)
        self.encoder = nn.Sequential(*enc, nn.ELU(), nn.Conv1d(ws[-1], dim, 3, padding=1))
        self.vq = ResidualVQ(dim, codes, quantizers)
        dec = [nn.Conv1d(dim, ws[-1], 3, padding=1)]
        for a, b, s in zip(ws[:0:-1], ws[-2::-1], strides[::-1]):
            dec += up(a, b, s)
        self.decoder = nn.Sequential(*dec, nn.ELU(), nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, wav):
        z, indices, penalty = self.vq(self.encoder(wav).transpose(1, 2))
        return CodecOutput(torch.tanh(self.decoder(z.transpose(1, 2))), indices, penalty)


class WaveCritic(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Conv1d(1, c, 15, 2, 7), nn.Conv1d(c, 2 * c, 21, 4, 10, groups=4),
            nn.Conv1d(2 * c, 4 * c, 21, 4, 10, groups=8), nn.Conv1d(4 * c, 4 * c, 5, 1, 2)])
        self.out = nn.Conv1d(4 * c, 1, 3, padding=1)

    def forward(self, x):
        feats = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2)
            feats.append(x)
        return self.out(x), feats
