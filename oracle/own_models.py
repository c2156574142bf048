"""Two decoders as people write them in PyTorch: system E, the Chinese question answering model, and system D, the
textbook's. Their state dictionaries are what `minigpt import` reads: the names and layouts are these classes' own."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class QaAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in self.qkv_proj(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))


class QaMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class QaBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = QaAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = QaMlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Qa(nn.Module):
    """Pre-norm, learned positions, exact GELU, biases on qkv and norms only, a tied head."""

    def __init__(self, vocab=61, context=12, width=16, heads=8, layers=2):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, width),
            "wpe": nn.Embedding(context, width),
            "blocks": nn.ModuleList(QaBlock(width, heads) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids):
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        for block in parts["blocks"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


class TextbookAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            layer(x).view(B, T, self.heads, C // self.heads).transpose(1, 2) for layer in (self.w_q, self.w_k, self.w_v)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
        future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
        y = scores.masked_fill(future, -math.inf).softmax(dim=-1) @ v
        return self.w_o(y.transpose(1, 2).reshape(B, T, C))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.linear1 = nn.Linear(width, inner)
        self.linear2 = nn.Linear(inner, width)

    def forward(self, x):
        return self.linear2(F.relu(self.linear1(x)))


class TextbookLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = TextbookAttention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.ff = FeedForward(width, inner)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.ff(x))


class Textbook(nn.Module):
    """Post-norm without a final norm, ReLU, embeddings scaled by the root of the width, a head of its own with biases;
    positions are a parameter (1, 100, C), or a buffer of sines and cosines."""

    def __init__(self, vocab=31, width=8, heads=4, inner=20, layers=2, sinusoidal=False):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab, width)
        if sinusoidal:
            position = torch.arange(100)[:, None]
            slowness = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
            table = torch.zeros(1, 100, width)
            table[0, :, 0::2], table[0, :, 1::2] = torch.sin(position * slowness), torch.cos(position * slowness)
            self.register_buffer("pos_encoding", table)
        else:
            self.pos_encoding = nn.Parameter(torch.zeros(1, 100, width))
        self.layers = nn.ModuleList(TextbookLayer(width, heads, inner) for _ in range(layers))
        self.linear = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embedding(ids) * math.sqrt(self.width) + self.pos_encoding[:, : ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.linear(x)


@torch.no_grad()
def draw_weights(model, draw):
    """Nothing is left at a value, such as 0 or 1, under which a mistake would not show."""
    for name, parameter in model.named_parameters():
        norm = ".ln_" in name or ".norm" in name
        mean = 1.0 if norm and name.endswith("weight") else 0.0
        parameter.copy_(draw.normal(parameter.shape, std=0.3, mean=mean))
    return model.eval()
