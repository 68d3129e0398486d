"""Finds the topics of papers in a citation graph: full-batch GraphSAGE with a loss on the labelled ones."""

# expect: verdict=transfer finding=constants-copied-every-step

import common
import torch
from torch import nn

TOPICS = 40


def citations(papers, edges, features):
    """Papers of a topic cite each other more often than others; their words tell a little of the topic."""
    source = torch.Generator().manual_seed(7)
    topics = torch.randint(TOPICS, (papers,), generator=source)
    by_topic = topics.argsort()
    near = torch.randint(-papers // 60, papers // 60, (edges,), generator=source)
    far = torch.randint(papers, (edges,), generator=source)
    citing = torch.randint(papers, (edges,), generator=source)
    cited = torch.where(far % 4 == 0, far, (citing + near).clamp(0, papers - 1))
    links = torch.stack([by_topic[cited], by_topic[citing]])
    words = torch.randn(papers, features, generator=source)
    words[torch.arange(papers), topics % features] += 1
    return links, words, topics


class SageLayer(nn.Module):
    """The mean of the neighbours' vectors beside the paper's own."""

    def __init__(self, inputs, outputs, links, papers):
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.neighbours = nn.Linear(inputs, outputs, bias=False)
        self.links = links  # <- finding
        # cured: self.register_buffer("links", links, persistent=False)
        degrees = torch.bincount(links[1], minlength=papers).clamp(min=1)
        self.register_buffer("share", 1 / degrees.float().unsqueeze(1), persistent=False)

    def forward(self, x):
        cited, citing = self.links.to(x.device)  # <- finding
        # cured: cited, citing = self.links
        messages = self.neighbours(x)
        total = torch.zeros_like(messages).index_add_(0, citing, messages.index_select(0, cited))
        return self.own(x) + total * self.share


class Sage(nn.Module):
    def __init__(self, features, hidden, depth, links, papers):
        super().__init__()
        self.embed = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(SageLayer(hidden, hidden, links, papers) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(depth))
        self.head = nn.Linear(hidden, TOPICS)

    def forward(self, x):
        x = self.embed(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + nn.functional.relu(norm(layer(x)))
        return self.head(x)


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    papers = common.sized(args, 160_000, 400)
    features = common.sized(args, 128, 16)
    links, words, topics = citations(papers, common.sized(args, 4_000_000, 3000), features)
    labelled = torch.randperm(papers)[: papers // 2].to(args.device)
    words, topics = words.to(args.device), topics.to(args.device)
    wanted = topics[labelled]

    model = Sage(features, common.sized(args, 64, 16), common.sized(args, 3, 2), links, papers).to(
        args.device
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    losses = []
    for _ in common.steps(args, losses, papers):
        logits = model(words)
        loss = nn.functional.cross_entropy(logits.index_select(0, labelled), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
