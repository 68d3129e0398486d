"""The Hugging Face Trainer with gradient accumulation and evaluation, on a tiny random BERT."""

# truth: steps=12 marker=update backwards_per_step=2 framework=transformers
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

torch.set_num_threads(1)
set_seed(0)
config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
)
model = BertForSequenceClassification(config)
examples = [{"input_ids": torch.randint(100, (16,)), "labels": index % 2} for index in range(48)]
with tempfile.TemporaryDirectory(dir=".") as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        eval_strategy="epoch",
        logging_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, train_dataset=examples, eval_dataset=examples[:16])
    trainer.remove_callback(PrinterCallback)
    result = trainer.train()
print(f"steps {result.global_step} loss {result.training_loss:.6f}")
