import torch


@torch.no_grad()
def write(model, tok, length=24, temperature=0.8, top_k=40, seed=0):
    gen = torch.Generator().manual_seed(seed)
    ids = torch.tensor([[tok.eod]])
    for _ in range(length):
        logits = model(ids[:, -model.block:])[0, -1] / temperature
        vals, at = logits.topk(top_k)
        pick = torch.multinomial(vals.softmax(-1), 1, generator=gen)
        ids = torch.cat([ids, at[pick][None]], 1)
    return tok.decode(ids[0].tolist())
