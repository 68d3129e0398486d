from .learner import Learner

__all__ = ["Learner"]
