"""Tensors in and out: seeded draws, and safetensors files whose bytes are the same each time."""

import json
import struct

import numpy as np
import safetensors.torch
import torch
import transformers

VERSIONS = {
    "torch": torch.__version__.split("+")[0],
    "transformers": transformers.__version__,
}


class Draw:
    """Random tensors from one seed. NumPy's PCG64 gives the same ones on every machine."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def normal(self, shape, std=1.0, mean=0.0):
        return torch.from_numpy(self.rng.standard_normal(shape) * std + mean).float()

    def below(self, limit, shape):
        return torch.from_numpy(self.rng.integers(0, limit, shape))

    def true(self, chance, shape):
        return torch.from_numpy(self.rng.random(shape) < chance)


def exact(x):
    """A float64 answer as the float32 nearest to it; what rounding left of a true zero becomes zero."""
    x = x.detach()
    return torch.where(x.abs() < 1e-12, 0.0, x).float().contiguous()


def save(tensors, path, metadata):
    """Writes safetensors with the metadata in order: the library's own order changes from run to run."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(tensors, {name: str(value) for name, value in metadata.items()})
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
