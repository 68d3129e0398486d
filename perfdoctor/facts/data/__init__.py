"""Facts on batches: loaders, workers, storage, padding."""
