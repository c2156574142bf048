"""State dictionaries of own_models.py, as their authors save them, and the logits that they must give."""

import json

import torch

import tensors
from own_models import Qa, Textbook, draw_weights

IDS = [[3, 1, 4, 1, 5, 9, 2, 6]]
CHARACTERS = sorted("\n !,.?abcdefghijklmnopqrstuvwxyz你好世界天空是什么颜色的蓝红？。")


def write_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    qa(folder)
    textbook(folder, "textbook", sinusoidal=False)
    textbook(folder, "textbook-sinusoidal", sinusoidal=True)


def qa(folder):
    """`best_model.pth` with what a training script keeps beside the model, and the vocabulary with a list."""
    words = ["<pad>", "<unk>", "<sep>", *CHARACTERS]
    model = draw_weights(Qa(vocab=len(words)), tensors.Draw(31))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    saved = {
        "epoch": 3,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "val_loss": 1.25,
    }
    torch.save(saved, folder / "best_model.pth")
    vocabulary = {"word2id": {word: i for i, word in enumerate(words)}, "id2word": words}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, indent=4, ensure_ascii=False))
    expected(folder / "best_model.safetensors", model)


def textbook(folder, name, sinusoidal):
    model = draw_weights(Textbook(sinusoidal=sinusoidal), tensors.Draw(32))
    torch.save(model.state_dict(), folder / f"{name}.pth")
    expected(folder / f"{name}.safetensors", model)


def expected(path, model):
    ids = torch.tensor(IDS)
    with torch.no_grad():
        logits = model.double()(ids)
    tensors.save({"ids": ids, "logits": tensors.exact(logits)}, path, tensors.VERSIONS)
