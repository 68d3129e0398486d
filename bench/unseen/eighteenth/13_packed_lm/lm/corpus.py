"""Short notes from a small random grammar, so that no download is needed."""
import random

ONSET = "b br c ch d dr f g gl h j k l m n p pl qu r s st t tr v w z".split()
CORE = "a e i o u ai ea oo".split()
END = ["", "n", "r", "st", "m", "l", "ck"]


def _lexicon(rng, n):
    words = set()
    while len(words) < n:
        words.add("".join(rng.choice(ONSET) + rng.choice(CORE) for _ in range(rng.randint(1, 2)))
                  + rng.choice(END))
    return sorted(words)


def make_corpus(n, seed):
    rng = random.Random(seed)
    lexicon = _lexicon(rng, 3000)
    follow = [[rng.randrange(len(lexicon)) for _ in range(6)] for _ in lexicon]
    docs = []
    for _ in range(n):
        at = int(len(lexicon) * rng.random() ** 2)
        words = []
        for _ in range(rng.randint(3, 10)):
            words.append(lexicon[at])
            at = rng.choice(follow[at]) if rng.random() < 0.85 else int(len(lexicon) * rng.random() ** 2)
        docs.append(" ".join(words))
    return docs
