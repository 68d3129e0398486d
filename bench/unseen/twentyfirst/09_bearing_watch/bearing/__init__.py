"""Condition monitoring of spindle bearings from accelerometer recordings."""
from .model import EnvelopeNet
from .preprocess import build_pipeline
from .records import FAULTS, RecordingStore, SpindleWindows, make_loader

__all__ = ["EnvelopeNet", "FAULTS", "RecordingStore", "SpindleWindows", "build_pipeline", "make_loader"]
