import torch


class SpanMasker:
    """Turns a batch of traces into patches, a perturbed view and a span mask."""

    def __init__(self, patch, mask_ratio, min_span, jitter, noise):
        self.patch = patch
        self.mask_ratio = mask_ratio
        self.min_span = min_span
        self.jitter = jitter
        self.noise = noise

    def patches(self, traces):
        return traces.unfold(1, self.patch, self.patch)

    def perturb(self, traces):
        shift = int(torch.randint(-self.jitter, self.jitter + 1, ()))
        moved = torch.roll(traces, shift, dims=1)
        return moved + self.noise * torch.randn_like(moved)

    def mask(self, n, tokens):
        count = round(tokens * self.mask_ratio / self.min_span)
        starts = torch.rand(n, tokens - self.min_span + 1).topk(count, dim=1).indices
        spans = starts.unsqueeze(-1) + torch.arange(self.min_span)
        mask = torch.zeros(n, tokens, dtype=torch.bool)
        return mask.scatter_(1, spans.flatten(1), True)

    def __call__(self, traces):
        moved = self.perturb(traces)
        patches = self.patches(moved)
        return patches, self.mask(patches.shape[0], patches.shape[1])
