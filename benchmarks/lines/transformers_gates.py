"""A BERT with gates in the Trainer of transformers."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

import sparsegate as sg
from sparsegate.integrations.transformers import SparseTrainer

torch.manual_seed(0)
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
config = BertConfig(vocab_size=100, intermediate_size=64, **size)
model = BertForSequenceClassification(config)
tokens = torch.randint(0, 100, (64, 12))
data = [{"input_ids": each, "labels": int(each[0] > 50)} for each in tokens]
args = TrainingArguments(tempfile.mkdtemp(), max_steps=40, use_cpu=True, report_to=[])
trainer = SparseTrainer(
    model=model,
    args=args,
    train_dataset=data,
    target=sg.Target(keep=0.1),
)
trainer.train()
named = model.base_model.named_parameters()
weights = [each for name, each in named if each.ndim > 1 and "embeddings" not in name]
print("kept", sum(int((each != 0).sum()) for each in weights) / sum(w.numel() for w in weights))
