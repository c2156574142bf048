"""A model folder and what its model must answer: logits, loss, every gradient, ten steps of AdamW.

Weights are float32; all that follows from them is computed in float64 and stored as float32, so a fixture holds
the right answer rather than PyTorch's rounding of it.
"""

import torch
from torch.nn.utils import clip_grad_norm_

import folder
import tensors
from reference import IGNORED, Decoder, cross_entropy

BATCH, TOKENS = 3, 11
STEPS = 10
LEARNING_RATE = 1e-2
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1
MAX_NORM = 1.0


def write_case(case, root):
    """Writes root/<case>/: config.json, model.safetensors, expected.safetensors."""
    draw = tensors.Draw(case.seed)
    model = folder.stock_model(case.config) if case.stock else Decoder(case.config)
    draw_weights(model, draw)
    path = root / case.name
    if case.stock:
        model.save_pretrained(path)
    else:
        folder.write(path, model, case.config)
    expected = answers(model.double().eval(), *draw_batch(case.config["vocab_size"], draw))
    tensors.save(expected, path / "expected.safetensors", metadata(case))


def metadata(case):
    return tensors.VERSIONS | {
        "case": case.name,
        "seed": case.seed,
        "made_by": "transformers" if case.stock else "oracle/reference.py",
        "ignored": IGNORED,
        "adamw_steps": STEPS,
        "learning_rate": LEARNING_RATE,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY,  # on tensors of two dimensions or more
        "max_norm": MAX_NORM,
    }


@torch.no_grad()
def draw_weights(model, draw):
    """Nothing is left at a value, such as 0 or 1, under which a mistake would not show."""
    for name, parameter in folder.own_parameters(model).items():
        if parameter.ndim == 2:
            parameter.copy_(draw.normal(parameter.shape, std=0.2))
        elif name.endswith(".bias"):
            parameter.copy_(draw.normal(parameter.shape, std=0.1))
        else:
            parameter.copy_(draw.normal(parameter.shape, std=0.1, mean=1.0))


def draw_batch(vocab_size, draw):
    """Token ids (B, T) and the tokens after them, some ignored: the end of one row, and here and there."""
    sequence = draw.below(vocab_size, (BATCH, TOKENS + 1))
    sequence[0, :2] = torch.tensor([0, vocab_size - 1])
    ids, targets = sequence[:, :-1].clone(), sequence[:, 1:].clone()
    targets[1, -4:] = IGNORED
    targets[0, 3] = targets[2, 0] = targets[2, 7] = IGNORED
    return ids, targets


def logits_of(model, ids):
    output = model(ids)
    return output if isinstance(model, Decoder) else output.logits


def answers(model, ids, targets):
    logits = logits_of(model, ids)
    loss = cross_entropy(logits, targets)
    loss.backward()
    gradients = {f"grad.{name}": p.grad.clone() for name, p in folder.own_parameters(model).items()}
    losses, norms = adamw(model, ids, targets)
    floats = {
        "logits": logits,
        "loss": loss.reshape(1),
        "grad_norm": norms[:1],
        "adamw_losses": losses,
        "adamw_grad_norms": norms,
    }
    floats = {name: tensors.exact(value) for name, value in (floats | gradients).items()}
    return {"ids": ids, "targets": targets} | floats


def adamw(model, ids, targets):
    """The loss before each step and after the last, and each step's gradient norm before it was clipped."""
    optimizer = torch.optim.AdamW(decay_groups(model), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(logits_of(model, ids), targets)
        loss.backward()
        norms.append(clip_grad_norm_(model.parameters(), MAX_NORM))
        losses.append(loss.detach())
        optimizer.step()
    with torch.no_grad():
        losses.append(cross_entropy(logits_of(model, ids), targets))
    assert any(norm > MAX_NORM for norm in norms), "no step was clipped: the fixture would not test clipping"
    return torch.stack(losses), torch.stack(norms)


def decay_groups(model):
    """Weight decay is for matrices, embeddings among them; biases and norms have none."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
