"""python train.py [key=value ...]"""
import sys

import torch

from lm.config import Settings
from lm.corpus import make_corpus
from lm.engine import Engine
from lm.model import Decoder
from lm.packing import PackedBatches
from lm.text import WordPieces


def main(argv):
    cfg = Settings.from_overrides(argv)
    torch.manual_seed(cfg.seed)
    docs = make_corpus(cfg.documents, cfg.seed)
    tok = WordPieces.train(docs, cfg.vocab)
    batches = PackedBatches([tok.encode(d) for d in docs], cfg.block, cfg.batch, tok.pad, cfg.seed)
    model = Decoder(cfg, tok.size)
    print(f"{len(docs)} documents, vocab {tok.size}, {batches.rows} packed rows", flush=True)
    Engine(cfg, model, tok, batches).fit()


if __name__ == "__main__":
    main(sys.argv[1:])
