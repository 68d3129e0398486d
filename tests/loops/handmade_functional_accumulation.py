"""No Optimizer and no .grad: gradients from torch.autograd.grad are added up over four batches."""

# truth: steps=15 marker=backward backwards_per_step=4
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(60, 64, 32)
y = x @ torch.randn(32, 1)
weight = torch.zeros(32, 1, requires_grad=True)
total = torch.zeros_like(weight)
for index in range(60):
    loss = (x[index] @ weight - y[index]).square().mean()
    total = total + torch.autograd.grad(loss, weight)[0]
    if index % 4 == 3:
        weight = (weight - 0.02 * total).detach().requires_grad_()
        total = torch.zeros_like(weight)
print(f"loss {loss.item():.6f}")
