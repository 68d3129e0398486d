"""Nothing is trained and there is no loader: a module is called in a loop (generation)."""

# truth: steps=40 marker=call
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(50, 64), nn.Flatten(), nn.Linear(64 * 8, 50)).eval()
tokens = list(range(8))
with torch.inference_mode():
    for _ in range(40):
        logits = model(torch.tensor([tokens[-8:]]))
        tokens.append(int(logits.argmax()))
print("tokens", *tokens[8:])
