"""Steps of torch.optim.Muon on matrices of every proportion, for the optimiser's test.

torch turns matrices in bfloat16; here it is made to keep double precision, so that the fixture is its rule and not its
rounding.
"""

from unittest import mock

import torch

import tensors

SHAPES = {"square": (8, 8), "wide": (8, 32), "tall": (32, 8), "joint": (8, 24)}  # (in, out)
STEPS = 5
LEARNING_RATE = 0.02
WEIGHT_DECAY = 0.1


def write_all(folder):
    draw = tensors.Draw(201)
    expected = {}
    for name, shape in SHAPES.items():
        before = draw.normal(shape).double()
        gradients = [draw.normal(shape).double() for _ in range(STEPS)]
        expected[f"{name}.before"] = before
        expected[f"{name}.gradients"] = torch.stack(gradients)
        expected[f"{name}.after"] = after(before, gradients)
    folder.mkdir(parents=True, exist_ok=True)
    expected = {key: tensors.exact(value) for key, value in expected.items()}
    tensors.save(expected, folder / "muon.safetensors", tensors.VERSIONS)


def after(before, gradients):
    """torch stores a layer (out, in), and has query, key and value as layers of their own."""
    rows, columns = before.shape
    parts = 3 if columns == 3 * rows else 1
    layers = [torch.nn.Parameter(part.t().contiguous()) for part in before.chunk(parts, dim=1)]
    optimizer = torch.optim.Muon(layers, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, momentum=0.95, nesterov=True)
    with mock.patch.object(torch, "bfloat16", torch.float64):
        for gradient in gradients:
            for layer, part in zip(layers, gradient.chunk(parts, dim=1)):
                layer.grad = part.t().contiguous()
            optimizer.step()
    return torch.cat([layer.detach().t() for layer in layers], dim=1)
