import torch
import torch.nn.functional as F
from torch import nn


class SpectralLoss(nn.Module):
    def __init__(self, sizes=(256, 1024)):
        super().__init__()
        self.sizes = sizes
        for n in sizes:
            self.register_buffer(f"win{n}", torch.hann_window(n), persistent=False)

    def magnitude(self, wav, n):
        spec = torch.stft(wav.squeeze(1), n, n // 4, window=getattr(self, f"win{n}"), return_complex=True)
        return torch.sqrt(spec.real ** 2 + spec.imag ** 2 + 1e-7)

    def forward(self, fake, real):
        loss = 0.0
        for n in self.sizes:
            a, b = self.magnitude(fake, n), self.magnitude(real, n)
            loss = loss + (a - b).abs().mean() + (a.log() - b.log()).abs().mean()
        return loss


class AdversarialMixin:
    """Hinge game between self.codec and self.critic; the host class supplies both and their optimizers."""

    def critic_objective(self, wav, out):
        fake = out.wav.detach()
        score_real, _ = self.critic(wav)
        score_fake, _ = self.critic(fake)
        return F.relu(1 - score_real).mean() + F.relu(1 + score_fake).mean()

    def codec_objective(self, wav, out):
        score, feats = self.critic(out.wav)
        with torch.no_grad():
            _, anchors = self.critic(wav)
        match = sum(F.l1_loss(a, b) for a, b in zip(feats, anchors)) / len(feats)
        return -score.mean() + match
