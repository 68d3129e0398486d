import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel


class TextTower(nn.Module):
    def __init__(self, s, length):
        super().__init__()
        self.encoder = BertModel(BertConfig(
            vocab_size=s.vocabulary, hidden_size=s.width, num_hidden_layers=s.layers,
            num_attention_heads=s.heads, intermediate_size=4 * s.width,
            max_position_embeddings=length, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0), add_pooling_layer=False)
        self.project = nn.Linear(s.width, s.width)

    def forward(self, ids, mask):
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weight).sum(1) / weight.sum(1)
        return F.normalize(self.project(pooled), dim=-1)


class JobMatcher(nn.Module):
    """Scores every posting of a profile's short list; the right one should win."""

    def __init__(self, s):
        super().__init__()
        self.profiles = TextTower(s, s.profile_tokens)
        self.postings = TextTower(s, s.posting_tokens)
        self.temperature = s.temperature

    def score(self, profile_ids, profile_mask, posting_ids, posting_mask):
        """Similarity of paired rows: one profile and one posting each."""
        person = self.profiles(profile_ids, profile_mask)
        job = self.postings(posting_ids, posting_mask)
        return (person * job).sum(-1) / self.temperature

    def forward(self, profile_ids, profile_mask, posting_ids, posting_mask, labels=None):
        rows, choices, _ = posting_ids.shape
        scores = self.score(
            profile_ids.repeat_interleave(choices, 0),
            profile_mask.repeat_interleave(choices, 0),
            posting_ids.flatten(0, 1),
            posting_mask.flatten(0, 1),
        ).view(rows, choices)
        if labels is None:
            return {"logits": scores}
        return {"loss": F.cross_entropy(scores, labels), "logits": scores}
