"""Word-level vocabulary of the synthetic language."""
import random
from collections import Counter

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ONSETS = ["b", "br", "ch", "d", "dr", "f", "g", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "tr", "v"]
NUCLEI = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
CODAS = ["", "n", "r", "s", "t", "l", "nd", "rk", "st"]


def invent_words(count, rng):
    words = {}
    while len(words) < count:
        syllables = rng.choice((1, 2, 2, 3))
        word = "".join(rng.choice(ONSETS) + rng.choice(NUCLEI) for _ in range(syllables)) + rng.choice(CODAS)
        words.setdefault(word)
    return list(words)


class Vocab:
    def __init__(self, words):
        self.tokens = SPECIALS + list(words)
        self.index = {t: i for i, t in enumerate(self.tokens)}
        self.pad, self.unk, self.cls, self.sep, self.mask = range(len(SPECIALS))
        self.groups = {}
        for i in range(len(self.tokens)):
            self.groups.setdefault(self.shape(i), []).append(i)

    def __len__(self):
        return len(self.tokens)

    @classmethod
    def from_documents(cls, documents, min_count=1):
        counts = Counter(w for doc in documents for w in doc)
        return cls(w for w, c in counts.most_common() if c >= min_count)

    def encode(self, words, max_tokens):
        ids = [self.index.get(w, self.unk) for w in words[: max_tokens - 2]]
        return [self.cls, *ids, self.sep]

    def is_special(self, token_id):
        return token_id < len(SPECIALS)

    def shape(self, token_id):
        word = self.tokens[token_id]
        return len(word), word[0]

    def neighbours(self, token_id):
        """Words one could mistype for this one: same length, same first letter."""
        return [i for i in self.groups[self.shape(token_id)] if i != token_id]


def make_rng(seed):
    return random.Random(seed)
