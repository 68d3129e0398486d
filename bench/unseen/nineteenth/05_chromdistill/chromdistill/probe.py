import numpy as np
import torch


class RidgeProbe:
    """Closed form linear probe of the feedstock family on mean-pooled features."""

    def __init__(self, dataset, views, n_train, n_test, ridge):
        self.dataset = dataset
        self.views = views
        self.n_train = n_train
        self.n_test = n_test
        self.ridge = ridge

    @torch.inference_mode()
    def features(self, encoder, traces):
        chunks = [encoder(self.views.patches(part))[0].mean(1) for part in traces.split(100)]
        return torch.cat(chunks).double().numpy()

    def score(self, encoder):
        n = self.n_train + self.n_test
        x = self.features(encoder, self.dataset.traces[:n])
        x = (x - x.mean(0)) / (x.std(0) + 1e-8)
        onehot = np.eye(self.dataset.FAMILIES)[self.dataset.family[:n]]
        xt, yt = x[:self.n_train], onehot[:self.n_train]
        weights = np.linalg.solve(xt.T @ xt + self.ridge * np.eye(x.shape[1]), xt.T @ yt)
        guess = (x[self.n_train:] @ weights).argmax(1)
        return float((guess == self.dataset.family[self.n_train:n]).mean())
