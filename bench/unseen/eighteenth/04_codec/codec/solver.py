import time

import torch

from .criteria import AdversarialMixin, SpectralLoss


def perplexity(indices, codes):
    """Per-quantizer codebook perplexity of one batch."""
    counts = torch.stack([torch.bincount(i.flatten(), minlength=codes) for i in indices]).float()
    p = counts / counts.sum(1, keepdim=True)
    return torch.exp(-(p * torch.log(p + 1e-10)).sum(1))


class Solver(AdversarialMixin):
    def __init__(self, codec, critic, loader, opt):
        self.codec, self.critic, self.loader, self.opt = codec, critic, loader, opt
        self.spectral = SpectralLoss()
        self.opt_codec = torch.optim.Adam(codec.parameters(), lr=opt.lr, betas=(0.5, 0.9))
        self.opt_critic = torch.optim.Adam(critic.parameters(), lr=opt.lr, betas=(0.5, 0.9))

    def critic_step(self, wav):
        loss = self.critic_objective(wav)
        self.opt_critic.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_critic.step()
        return loss.detach()

    def codec_step(self, wav):
        out = self.codec(wav)
        rec = self.spectral(out.wav, wav)
        loss = rec + out.vq_penalty + self.opt.adv_weight * self.codec_objective(wav, out)
        self.opt_codec.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.codec.parameters(), 5.0)
        self.opt_codec.step()
        return rec.detach(), out.indices

    def fit(self):
        t0 = time.perf_counter()
        for step, wav in enumerate(self.loader, 1):
            d = self.critic_step(wav)
            rec, indices = self.codec_step(wav)
            if step % self.opt.log_every == 0:
                ppl = " ".join(f"{v:.0f}" for v in perplexity(indices, self.opt.codes))
                print(f"{step:4d}/{self.opt.steps} spectral {rec.item():.4f} critic {d.item():.3f} "
                      f"perplexity {ppl}  {time.perf_counter() - t0:.1f}s", flush=True)
