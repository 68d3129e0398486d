import torch
import torch.nn as nn


class SessionModel(nn.Module):
    def __init__(self, n_events, max_len, dim=96, layers=2, heads=4):
        super().__init__()
        self.event = nn.Embedding(n_events, dim, padding_idx=0)
        self.dwell = nn.Linear(1, dim)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        block = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True,
                                           norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 1)

    def forward(self, events, dwell):
        pad = events == 0
        x = self.event(events) + self.dwell(dwell.unsqueeze(-1)) + self.pos[:events.size(1)]
        x = self.encoder(x, src_key_padding_mask=pad)
        x = x.masked_fill(pad.unsqueeze(-1), 0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.head(x).squeeze(-1)
