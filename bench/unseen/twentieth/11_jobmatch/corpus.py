"""Made-up profiles and job postings: each has a topic, tokens cluster by topic."""
import numpy as np
import torch
from torch.utils.data import Dataset

PAD, CLS = 0, 1


class MatchingSet(Dataset):
    def __init__(self, s, count, seed):
        rng = np.random.default_rng(seed)
        shared = np.random.default_rng(s.seed)
        self.words = shared.integers(2, s.vocabulary, size=(s.topics, 160))
        topic = rng.integers(0, s.topics, size=count)
        wrong = rng.integers(1, s.topics, size=(count, s.candidates - 1))
        others = (topic[:, None] + wrong) % s.topics
        place = rng.integers(0, s.candidates, size=count)
        cand_topic = np.empty((count, s.candidates), dtype=np.int64)
        for i in range(count):
            cand_topic[i] = np.insert(others[i], place[i], topic[i])
        self.profile = self._tokens(rng, topic, s.profile_tokens, s.vocabulary)
        self.posting = self._tokens(rng, cand_topic, s.posting_tokens, s.vocabulary)
        self.label = torch.from_numpy(place.astype(np.int64))

    def _tokens(self, rng, topic, length, vocabulary):
        shape = topic.shape + (length,)
        ids = self.words[topic[..., None], rng.integers(0, self.words.shape[1], size=shape)]
        noise = rng.random(shape) < 0.6
        ids = np.where(noise, rng.integers(2, vocabulary, size=shape), ids)
        ids[..., 0] = CLS
        size = rng.integers(int(0.85 * length), length + 1, size=topic.shape)
        ids[np.arange(length) >= size[..., None]] = PAD
        return torch.from_numpy(ids.astype(np.int64))

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return {"profile_ids": self.profile[i], "posting_ids": self.posting[i], "labels": self.label[i]}


def collate(items):
    batch = {k: torch.stack([item[k] for item in items]) for k in items[0]}
    batch["profile_mask"] = (batch["profile_ids"] != PAD).long()
    batch["posting_mask"] = (batch["posting_ids"] != PAD).long()
    return batch
