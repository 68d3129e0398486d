try:
    import lightning.pytorch as pl
except ImportError:  # older installations
    import pytorch_lightning as pl

__all__ = ["pl"]
