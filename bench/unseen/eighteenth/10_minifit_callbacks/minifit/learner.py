"""The loop. Everything else is a callback."""
import torch


class CancelFit(Exception):
    pass


class Learner:
    def __init__(self, model, loaders, loss_func, opt_func, callbacks=()):
        self.model, self.loaders, self.loss_func = model, loaders, loss_func
        self.opt = opt_func(model.parameters())
        self.cbs = sorted(callbacks, key=lambda cb: cb.order)
        for cb in self.cbs:
            cb.learn = self
        self.step = self.epoch = 0
        self.training = True

    def __call__(self, event):
        for cb in self.cbs:
            handler = getattr(cb, event, None)
            if handler is not None:
                handler()

    def one_batch(self):
        self.xb, self.yb = self.batch
        self("before_batch")
        self.pred = self.model(self.xb)
        self("after_pred")
        self.loss = self.compute_loss()
        self("after_loss")
        if not self.training:
            return
        self.loss.backward()
        self("after_backward")
        self.opt.step()
        self.opt.zero_grad()
        self.step += 1
        self("after_step")

    def compute_loss(self):
        return self.loss_func(self.pred, self.yb)

    def one_epoch(self, training):
        self.training = training
        self.model.train(training)
        self.dl = self.loaders.train if training else self.loaders.valid
        self("before_epoch")
        with torch.set_grad_enabled(training):
            for self.iter, self.batch in enumerate(self.dl):
                self.one_batch()
                self("after_batch")
        self("after_epoch")

    def fit(self, epochs):
        self("before_fit")
        try:
            for self.epoch in range(epochs):
                self.one_epoch(True)
                self.one_epoch(False)
        except CancelFit:
            pass
        self("after_fit")
