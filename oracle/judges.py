"""Those who know the right answer for a model folder: reference.py, and transformers where it can open it."""

from dataclasses import dataclass

import torch
import transformers

import folder
from reference import Decoder, cross_entropy


@dataclass
class Answer:
    logits: torch.Tensor  # (T, V)
    loss: torch.Tensor  # the mean negative log-likelihood of ids[1:]
    attention: torch.Tensor  # (layer, head, query, key)


def judges(path):
    """Name and model of all who can open the folder."""
    models = {"reference": folder.open_reference(path)}
    if folder.read_config(path)["model_type"] == "gpt2":
        for auto in (transformers.GPT2LMHeadModel, transformers.AutoModelForCausalLM):
            models[auto.__name__] = folder.open_transformers(path, auto)
    return models


@torch.no_grad()
def answer(model, ids):
    ids = torch.tensor([ids])
    if isinstance(model, Decoder):
        attention = []
        logits = model(ids, attention)
    else:
        output = model(ids, output_attentions=True)
        logits, attention = output.logits, output.attentions
    return Answer(logits[0], cross_entropy(logits[:, :-1], ids[:, 1:]), torch.cat(tuple(attention)))


def full_context(path):
    """As many ids as the model can take."""
    config = folder.read_config(path)
    return [(7 * position + 3) % config["vocab_size"] for position in range(config["n_positions"])]
