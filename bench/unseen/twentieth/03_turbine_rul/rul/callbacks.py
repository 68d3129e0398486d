import lightning as L


class ConsoleLog(L.Callback):
    def __init__(self, every):
        self.every = every

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every == 0:
            print(f"epoch {trainer.current_epoch} batch {batch_idx + 1} loss {outputs['loss'].item():.5f}", flush=True)

    def on_validation_end(self, trainer, module):
        print(f"epoch {trainer.current_epoch} val MAE {trainer.callback_metrics['val_mae'].item():.2f} cycles", flush=True)
