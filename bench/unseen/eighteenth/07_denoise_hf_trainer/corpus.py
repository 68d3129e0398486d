"""Documents from a topic-switching word model, encoded once."""
import numpy as np
from torch.utils.data import Dataset

from vocab import Vocab, invent_words, make_rng


def write_documents(n_docs, n_words, length, seed):
    words = np.array(invent_words(n_words, make_rng(seed)))
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(1, n_words + 1) ** 0.8
    topics = [rng.permutation(n_words) for _ in range(12)]
    zipf /= zipf.sum()
    docs = []
    for _ in range(n_docs):
        n = int(rng.integers(length // 2, length))
        topic = topics[int(rng.integers(len(topics)))]
        picks = topic[rng.choice(n_words, size=n, p=zipf)]
        docs.append(words[picks].tolist())
    return docs


class EncodedCorpus(Dataset):
    def __init__(self, documents, vocab, max_tokens):
        self.items = [vocab.encode(doc, max_tokens) for doc in documents]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return {"input_ids": self.items[i]}


def build_corpus(cfg, seed):
    docs = write_documents(cfg["documents"], cfg["vocab_words"], cfg["max_tokens"], seed)
    held = max(64, len(docs) // 20)
    vocab = Vocab.from_documents(docs)
    return (
        vocab,
        EncodedCorpus(docs[held:], vocab, cfg["max_tokens"]),
        EncodedCorpus(docs[:held], vocab, cfg["max_tokens"]),
    )
