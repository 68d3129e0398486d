from collections import Counter


class WordPieces:
    """Whole words where frequent, characters elsewhere."""

    SPECIAL = ["<pad>", "<eod>", "</w>"]

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.index = {p: i for i, p in enumerate(self.pieces)}
        self.pad, self.eod, self.end = (self.index[s] for s in self.SPECIAL)
        self.memo = {}

    @property
    def size(self):
        return len(self.pieces)

    @classmethod
    def train(cls, docs, vocab):
        counts = Counter(w for d in docs for w in d.split())
        letters = sorted({c for w in counts for c in w})
        room = vocab - len(cls.SPECIAL) - len(letters)
        words = [w for w, _ in counts.most_common() if len(w) > 1][:room]
        return cls(cls.SPECIAL + letters + words)

    def _word(self, word):
        if word not in self.memo:
            whole = self.index.get(word)
            self.memo[word] = [whole] if whole is not None else [self.index[c] for c in word] + [self.end]
        return self.memo[word]

    def encode(self, text):
        return [i for w in text.split() for i in self._word(w)] + [self.eod]

    def decode(self, ids):
        return " ".join(self.pieces[i] for i in ids if i > self.end)
