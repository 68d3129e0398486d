from ..learner import CancelFit


class Callback:
    """Unknown attributes are looked up in the learner."""

    order = 0
    learn = None

    def __getattr__(self, name):
        if name == "learn" or name.startswith(("before_", "after_", "__")):
            raise AttributeError(name)
        return getattr(self.learn, name)


class StopAfter(Callback):
    order = 100

    def __init__(self, steps):
        self.steps = steps

    def after_batch(self):
        if self.training and self.step >= self.steps:
            raise CancelFit
