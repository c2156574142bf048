"""The decoder in plain PyTorch: what the Rust model must compute, read in one sitting.

Every option of config.json is here, written for clarity only, with no dropout, no cache and no fused kernel.
Parameters have GPT-2's names and layouts, so `state_dict()` is what a model folder holds.

    B batch   T tokens   C n_embd   H heads   D = C / H   V vocabulary
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

# What a key means when config.json leaves it out: GPT-2's own value.
DEFAULTS = {
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "norm_position": "pre",
    "position_embedding": "learned",
    "scale_embeddings": False,
    "qkv_bias": True,
    "attn_out_bias": True,
    "mlp_bias": True,
    "norm_bias": True,
    "lm_head_bias": False,
}

ACTIVATIONS = {
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
}

ROPE_BASE = 10_000.0
IGNORED = -100


class Linear(nn.Module):
    """A linear layer that keeps its weight as GPT-2 does: [in, out]."""

    def __init__(self, n_in, n_out, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None

    def forward(self, x):
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


def sinusoids(n_positions, width, dtype):
    """(T, C): sine in the even columns, cosine in the odd ones, each pair slower than the last."""
    column = torch.arange(width)
    slowness = 10_000.0 ** ((column - column % 2).to(dtype) / width)
    angle = torch.arange(n_positions, dtype=dtype)[:, None] / slowness
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def rotate(x):
    """Turns the pair (x[i], x[i + D/2]) of each position p by the angle p / base^(2i/D)."""
    T, D = x.shape[-2:]
    frequency = ROPE_BASE ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    angle = torch.arange(T, dtype=x.dtype)[:, None] * frequency  # (T, D/2)
    cos, sin = angle.cos(), angle.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config["n_embd"]
        self.n_head = config["n_head"]
        self.rope = config["position_embedding"] == "rope"
        self.c_attn = Linear(C, 3 * C, config["qkv_bias"])
        self.c_proj = Linear(C, C, config["attn_out_bias"])

    def forward(self, x, trace):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, H, T, D)
            for part in self.c_attn(x).chunk(3, dim=-1)
        )
        if self.rope:
            q, k = rotate(q), rotate(k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.n_head)  # (B, H, T, T)
        future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        if trace is not None:
            trace.append(weights)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(B, T, C))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config["n_embd"]
        inner = config["n_inner"] or 4 * C
        self.c_fc = Linear(C, inner, config["mlp_bias"])
        self.c_proj = Linear(inner, C, config["mlp_bias"])
        self.activation = ACTIVATIONS[config["activation_function"]]

    def forward(self, x):
        return self.c_proj(self.activation(self.c_fc(x)))


def layer_norm(config):
    return nn.LayerNorm(config["n_embd"], config["layer_norm_epsilon"], bias=config["norm_bias"])


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.post = config["norm_position"] == "post"
        self.ln_1 = layer_norm(config)
        self.attn = Attention(config)
        self.ln_2 = layer_norm(config)
        self.mlp = Mlp(config)

    def forward(self, x, trace):
        if self.post:
            x = self.ln_1(x + self.attn(x, trace))
            return self.ln_2(x + self.mlp(x))
        x = x + self.attn(self.ln_1(x), trace)
        return x + self.mlp(self.ln_2(x))


class Head(nn.Module):
    """From hidden states to logits, with a matrix of its own [vocab, n_embd] or the token embedding's."""

    def __init__(self, config):
        super().__init__()
        V, C = config["vocab_size"], config["n_embd"]
        self.weight = None if config["tie_word_embeddings"] else nn.Parameter(torch.zeros(V, C))
        self.bias = nn.Parameter(torch.zeros(V)) if config["lm_head_bias"] else None

    def forward(self, x, wte):
        return F.linear(x, wte if self.weight is None else self.weight, self.bias)


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        config = DEFAULTS | config
        C = config["n_embd"]
        self.scale = math.sqrt(C) if config["scale_embeddings"] else 1.0
        self.position_embedding = config["position_embedding"]
        self.wte = nn.Embedding(config["vocab_size"], C)
        if self.position_embedding == "learned":
            self.wpe = nn.Embedding(config["n_positions"], C)
        self.h = nn.ModuleList(Block(config) for _ in range(config["n_layer"]))
        # A post-norm block ends in a norm already.
        self.ln_f = nn.Identity() if config["norm_position"] == "post" else layer_norm(config)
        self.lm_head = Head(config)

    def embed(self, ids):
        tokens = self.wte(ids) * self.scale
        T, C = tokens.shape[-2:]
        if self.position_embedding == "learned":
            return tokens + self.wpe.weight[:T]
        if self.position_embedding == "sinusoidal":
            return tokens + sinusoids(T, C, tokens.dtype)
        return tokens

    def forward(self, ids, trace=None):
        """Logits (B, T, V) of ids (B, T); a list given as `trace` receives each layer's weights (B, H, T, T)."""
        x = self.embed(ids)  # (B, T, C)
        for block in self.h:
            x = block(x, trace)
        return self.lm_head(self.ln_f(x), self.wte.weight)


def cross_entropy(logits, targets):
    """The mean negative log-likelihood of the targets (B, T) that are not ignored."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
