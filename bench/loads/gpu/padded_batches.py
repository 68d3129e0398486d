"""Every text is padded to the longest that there may be."""

# expect: verdict=compute finding=padded-batches

import common
import torch
from torch.utils.data import DataLoader

PAD, WORDS = 0, 8192

args = common.arguments()
longest, width = common.sized(args, (512, 512), (32, 16))
lengths = torch.randint(longest // 16, longest // 4, (4096,)).tolist()
texts = [torch.randint(1, WORDS, (length,)) for length in lengths]


def padded(texts):
    room = longest
    # cured: room = -(-max(len(text) for text in texts) // 64) * 64
    rows = torch.full((len(texts), room), PAD)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width, padding_idx=PAD)
        layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, texts):
        return self.layers(self.words(texts), src_key_padding_mask=texts == PAD)


loader = DataLoader(texts, common.sized(args, 64, 4), collate_fn=padded, pin_memory=args.device == "cuda")
model = Reader().to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
    with torch.autocast(args.device, torch.bfloat16):
        y = model(batch.to(args.device, non_blocking=True))
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
