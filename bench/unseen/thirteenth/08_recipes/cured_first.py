"""Ingredient line tagger: quantity, unit, food, preparation. Word and character features, a BiLSTM and a CRF."""
import logging
import os
import random
import tempfile

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("recipes")

KINDS = ["QTY", "UNIT", "FOOD", "PREP", "SIZE", "NOTE"]
TAGS = ["O"] + [f"{b}-{k}" for k in KINDS for b in "BI"]
TAG_ID = {t: i for i, t in enumerate(TAGS)}
UNITS = "cup cups tablespoon teaspoon gram grams pound ounce pinch can slice clove litre".split()
PREPS = "chopped minced diced peeled grated toasted melted sifted crushed drained softened".split()
SIZES = "large small medium big heaped level thin".split()
FILLER = "of and or for with the about plus to taste from".split()
SYLLABLES = "ka ri mo ta no lu be sa chi po ne du fa gi ro mi va le tu pe".split()


def food_names(n, rng):
    return sorted({"".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 5))) for _ in range(n)})


def make_line(rng, foods):
    words, tags = [], []

    def put(kind, *ws):
        for j, w in enumerate(ws):
            words.append(w)
            tags.append("O" if kind is None else ("I-" if j else "B-") + kind)

    for _ in range(rng.randint(1, 3)):
        put("QTY", *([str(rng.randint(1, 12))] + (["1/2"] if rng.random() < 0.3 else [])))
        if rng.random() < 0.3:
            put("SIZE", rng.choice(SIZES))
        if rng.random() < 0.7:
            put("UNIT", rng.choice(UNITS))
        if rng.random() < 0.5:
            put(None, rng.choice(FILLER))
        put("FOOD", *(rng.choice(foods) for _ in range(rng.randint(1, 3))))
        if rng.random() < 0.5:
            put("PREP", *(rng.choice(PREPS) for _ in range(rng.randint(1, 2))))
        if rng.random() < 0.2:
            put("NOTE", rng.choice(FILLER), rng.choice(FILLER))
        put(None, rng.choice(FILLER))
    return words, tags


class Lexicon:
    def __init__(self, foods, units):
        self.foods = list(foods)
        self.units = list(units)

    def features(self, word):
        return [float(word in self.foods), float(word in self.units), float(word[0].isdigit())]


class Lines(Dataset):
    def __init__(self, lines, vocab, lexicon):
        self.lines, self.vocab, self.lexicon = lines, vocab, lexicon

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        words, tags = self.lines[i]
        ids = torch.tensor([self.vocab.get(w, 1) for w in words])
        feats = torch.tensor([self.lexicon.features(w) for w in words])
        return ids, feats, torch.tensor([TAG_ID[t] for t in tags])


def collate(rows):
    ids, feats, tags = zip(*rows)
    lengths = torch.tensor([len(x) for x in ids])
    return pad_sequence(ids, True), pad_sequence(feats, True), pad_sequence(tags, True), lengths


class CRF(nn.Module):
    def __init__(self, n_tags):
        super().__init__()
        self.n_tags = n_tags
        self.trans = nn.Parameter(torch.randn(n_tags, n_tags) * 0.05)  # [to, from]
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))

    def log_partition(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            nxt = torch.logsumexp(alpha.unsqueeze(1) + self.trans, dim=2) + emissions[:, t]
            alpha = torch.where(mask[:, t, None], nxt, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def score(self, emissions, tags, mask):
        em = emissions.gather(2, tags.unsqueeze(-1)).squeeze(-1)
        tr = self.trans[tags[:, 1:], tags[:, :-1]]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return self.start[tags[:, 0]] + (em * mask).sum(1) + (tr * mask[:, 1:]).sum(1) + self.end[last]

    def nll(self, emissions, tags, mask):
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

    @torch.no_grad()
    def decode(self, emissions, mask):
        best, back = self.start + emissions[:, 0], []
        for t in range(1, emissions.shape[1]):
            top, arg = (best.unsqueeze(1) + self.trans).max(dim=2)
            keep = mask[:, t, None]
            best = torch.where(keep, top + emissions[:, t], best)
            back.append(torch.where(keep, arg, torch.arange(self.n_tags)))
        tag = (best + self.end).argmax(1)
        path = [tag]
        for arg in reversed(back):
            tag = arg.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.append(tag)
        return torch.stack(path[::-1], dim=1)


class Tagger(nn.Module):
    def __init__(self, n_words, dim=64, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(n_words, dim, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(dim + 3, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))
        self.crf = CRF(len(TAGS))

    def emissions(self, ids, feats, lengths):
        x = self.drop(torch.cat([self.embed(ids), feats], dim=-1))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(h))


class Fitter:
    def __init__(self, model, train, val, steps=500, lr=2e-3):
        self.model, self.train, self.val, self.steps = model, train, val, steps
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 150, 0.5)
        self.path = os.path.join(tempfile.mkdtemp(), "tagger.pt")

    def accuracy(self):
        self.model.eval()
        right = total = 0
        for ids, feats, tags, lengths in self.val:
            mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
            with torch.no_grad():
                pred = self.model.crf.decode(self.model.emissions(ids, feats, lengths), mask)
            right += ((pred == tags) & mask).sum().item()
            total += mask.sum().item()
        self.model.train()
        return right / total

    def batches(self):
        while True:
            yield from self.train

    def run(self):
        for step, (ids, feats, tags, lengths) in enumerate(self.batches(), 1):
            mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
            loss = self.model.crf.nll(self.model.emissions(ids, feats, lengths), tags, mask)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            self.sched.step()
            if step % 20 == 0:
                log.info("step %d loss %.3f", step, loss.item())
            if step % 250 == 0:
                log.info("step %d token accuracy %.4f", step, self.accuracy())
                torch.save(self.model.state_dict(), self.path)
            if step == self.steps:
                return


def main():
    rng = random.Random(5)
    torch.manual_seed(5)
    foods = food_names(6500, rng)
    lines = [make_line(rng, foods) for _ in range(6256)]
    vocab = {}
    for words, _ in lines[256:]:
        for w in words:
            vocab.setdefault(w, len(vocab) + 2)
    lexicon = Lexicon(rng.sample(foods, 4000), UNITS)
    train = DataLoader(Lines(lines[256:], vocab, lexicon), 64, shuffle=True, collate_fn=collate, drop_last=True)
    val = DataLoader(Lines(lines[:256], vocab, lexicon), 128, collate_fn=collate)
    Fitter(Tagger(len(vocab) + 2), train, val).run()


if __name__ == "__main__":
    main()
