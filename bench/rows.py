"""What is compared: each row names the same work for MiniGPT and for others."""

from dataclasses import dataclass, field

MINIGPT = "minigpt"
NEW_TOKENS, PROMPT, PREFILL, BATCH = 64, 16, 512, 8


@dataclass
class Row:
    """The arguments of `minigpt`, and those of `peers.py` for each peer."""

    name: str
    title: str
    ours: list
    peers: dict = field(default_factory=dict)
    # A row of ours to be compared with as well.
    beside: str | None = None
    # What is compared: tokens a second, or the seconds of a whole process.
    unit: str = "tokens/s"
    repeat: int = 2
    warm_up: int = 1
    # How many parameters a model has that others build anew.
    parameters: int | None = None


@dataclass
class Training:
    """A row of training steps, before anybody has planned its model."""

    name: str
    title: str
    shape: list
    batch_size: int
    context: int
    repeat: int

    def row(self, plan):
        batch = ["--batch-size", self.batch_size, "--context", self.context]
        planned = plan(self.shape)
        return Row(
            self.name,
            f"training {self.title}, B{self.batch_size} T{self.context}",
            ["bench", "train", *self.shape, *batch],
            {"PyTorch": ["train", "--config", planned["config"], *batch]},
            repeat=self.repeat,
            parameters=planned["parameters"]["total"],
        )


TRAINING = [
    Training("train-tiny", "4L·4H·128 V65", ["--preset", "shakespeare-cpu"], 12, 64, repeat=60),
    Training("train-small", "6L·6H·384 V65", ["--preset", "shakespeare-char", "--set", "dropout=0"], 16, 256, repeat=5),
    Training("train-dropout", "6L·6H·384 V65 dropout 0.2", ["--preset", "shakespeare-char"], 16, 256, repeat=5),
    Training("train-qa", "6L·8H·768 V4825", ["--preset", "qa", "--set", "dropout=0"], 16, 128, repeat=4),
    Training("train-gpt2", "GPT-2 124M", ["--preset", "gpt2", "--set", "dropout=0"], 4, 256, repeat=3),
]


def rows(models, plan):
    """All rows. `models` has the GPT-2 that is run, as a folder and as GGUF files; `plan` asks `minigpt plan`."""
    model = ["--model", models["folder"]]
    f32, q8_0 = ["--model", models["f32"]], ["--model", models["q8_0"]]
    text = ["--prompt-length", PROMPT, "--max-new-tokens", NEW_TOKENS]
    decode, prefill = ["bench", "decode", *model, *text], ["--prompt-length", PREFILL]
    batch = ["--batch-size", BATCH]
    return [training.row(plan) for training in TRAINING] + [
        Row(
            "decode",
            "decoding GPT-2 124M f32",
            decode,
            {
                "transformers": ["transformers", "decode", *model, *text],
                "llama.cpp": ["llama", "decode", *f32, *text],
            },
        ),
        Row(
            "decode-q8",
            "decoding GPT-2 124M q8_0",
            [*decode, "--dtype", "q8_0"],
            {"llama.cpp": ["llama", "decode", *q8_0, *text]},
        ),
        Row(
            "decode-batch",
            f"decoding GPT-2 124M f32, {BATCH} at once",
            [*decode, *batch],
            {"transformers": ["transformers", "decode", *model, *text, *batch]},
            beside="decode",
        ),
        Row(
            "prefill",
            f"reading {PREFILL} tokens, GPT-2 124M f32",
            ["bench", "prefill", *model, *prefill],
            {
                "transformers": ["transformers", "prefill", *model, *prefill],
                "llama.cpp": ["llama", "prefill", *f32, *prefill],
            },
            repeat=5,
            # The first three passes of a model read it in its file.
            warm_up=4,
        ),
        Row(
            "first-token",
            "from start to first token, GPT-2 124M f32",
            ["generate", *model, "--ids", "1,2,3", "--max-new-tokens", 1, "--temperature", 0],
            {
                "transformers": ["transformers", "start", *model, "--prompt-length", 3],
                "llama.cpp": ["llama", "start", *f32, "--prompt-length", 3],
            },
            unit="s",
        ),
    ]
