"""Policy optimisation: the policy plays without gradients, then several updates on what it saw."""

# truth: steps=24 marker=update
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for _ in range(3):
    state, seen = torch.zeros(4), []
    for _ in range(64):
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(state)).sample()
        reward = float(action) - state[0].item()
        seen.append((state, action, reward))
        state = 0.9 * state + 0.1 * torch.randn(4)
    states, actions = torch.stack([s for s, _, _ in seen]), torch.stack([a for _, a, _ in seen])
    rewards = torch.tensor([r for _, _, r in seen])
    for _ in range(4):
        for part in torch.randperm(64).split(32):
            chosen = torch.distributions.Categorical(logits=policy(states[part])).log_prob(actions[part])
            loss = -(chosen * rewards[part]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
print(f"loss {loss.item():.6f}")
