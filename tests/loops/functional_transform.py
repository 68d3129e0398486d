"""torch.func: gradients of a pure function of a dictionary of parameters, updated by hand."""

# truth: steps=40 marker=backward
import torch
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
parameters = {name: p.detach() for name, p in model.named_parameters()}
x = torch.randn(64, 16)
y = x.sum(1, keepdim=True)


def loss_of(parameters):
    return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)


for _ in range(40):
    gradients, loss = grad_and_value(loss_of)(parameters)
    parameters = {name: p - 0.05 * gradients[name] for name, p in parameters.items()}
print(f"loss {loss.item():.6f}")
