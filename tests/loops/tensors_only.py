"""torch is used, but nothing is trained, loaded or called: there are no steps."""

# truth: steps=0
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
matrix = torch.randn(200, 200)
for _ in range(50):
    matrix = matrix @ matrix
    matrix = matrix / matrix.norm()
print(f"norm {matrix.norm().item():.6f}")
