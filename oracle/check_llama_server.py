"""llama.cpp's own server tests, run against `minigpt serve`.

They come from a checkout (or a bare repository) of llama.cpp that MINIGPT_LLAMA_CPP names, and are changed on the way into a
temporary folder: the server that they start is ours with a small model trained here, llama-server's options are mapped to ours,
and what only their model can say (words of its stories, numbers of its tokens) is not compared. Without a checkout they are
left out, aloud. What does not apply, or is not done, is listed below with its reason."""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

VARIABLE = "MINIGPT_LLAMA_CPP"
TESTS = "tools/server/tests"
TEMPLATES = "models/templates"

# Whole files about what these models and this server are not.
ELSEWHERE = {
    "test_compat_anthropic.py": "Anthropic's interface",
    "test_compat_gcp.py": "Google's interface",
    "test_infill.py": "infilling: these models can't fill in the middle",
    "test_kv_keep_only_active.py": "llama-server's memory of prompts outside of slots",
    "test_lora.py": "adapters",
    "test_mcp_servers.py": "tools that the server runs itself",
    "test_proxy.py": "a proxy for pages",
    "test_rerank.py": "reranking models",
    "test_router.py": "a router that starts servers",
    "test_sleep.py": "unloading of idle models",
    "test_slot_save.py": "slots in files",
    "test_speculative.py": "draft models",
    "test_stream.py": "a router's streams that are taken up again",
    "test_tools_builtin.py": "tools that the server runs itself",
    "test_vision_api.py": "images",
}

# Tests of the other files, by pattern. The first that fits counts.
NOT_HERE = [
    ("*test_load_split_model*", "a model to be downloaded"),
    ("*test_cors_proxy*", "a proxy for pages"),
    ("*test_local_media_file*", "images"),
    ("*test_embedding_multiple_with_fa*", "a model to be downloaded"),
    ("*test_cache_vs_nocache_prompt*", "llama.cpp skips it, too"),
    ("*test_server_slots", "slots are always told; here they need the key instead"),
    ("*test_metrics_disabled", "metrics are always there; here they need the key instead"),
    ("*test_server_model_aliases_and_tags", "tags, and an order of aliases by the alphabet"),
    ("*test_access_static_assets*", "files of llama-server's own page"),
    ("*test_cors_origins_localhost_rejects*", "a foreign origin is refused with 403, not answered without a header"),
    ("*test_cors_origins_defaults*", "a router that starts servers"),
    ("*test_cors_options*Methods*", "only methods that there are"),
    ("*test_cors_options*Headers*", "the headers that a page asks about, not *"),
    ("*test_metrics_prometheus_format*", "metrics have the model as a label"),
    ("*test_metrics_prompt_processed*", "metrics have the model as a label"),
    ("*test_metrics_predicted_total*", "metrics have the model as a label"),
    ("*test_metrics_embedding*", "metrics have the model as a label"),
    ("*test_ignore_eos*", "ignore_eos goes on behind the end of a text and forbids no token"),
    ("*test_chat_template_assistant_prefill*prefill1*", "parts of a text are joined by one line break, not two"),
    ("*test_chat_completion_with_timings_per_token*", "timings are in the last event of /completion"),
    ("*test_chat_completions_token_count*", "/apply-template and /tokenize tell it"),
    ("*test_verbose_debug*", "/apply-template tells the prompt"),
    ("*test_json_prompt_no_mtmd*", "a prompt is text or ids"),
    ("*test_completion_with_tokens_input*", "a prompt is text or ids, not both in one"),
    ("*test_cors_options*true*", "credentials of a browser are never asked for"),
    ("*test_tokenize_with_bos*", "these vocabularies have no token that begins a text"),
    ("*test_reasoning*DeepSeek-R1-Distill-Qwen-32B*tools2*", "tools, which this template does not show to the model"),
    ("*test_reasoning*command-r7b*tools2*", "tools, whose calls this template writes in a form that is not parsed back"),
    ("*test_date_inside_prompt*firefunction*", "a template that fails without `functions`, which no client sends"),
    ("*test_ctx_shift_enabled*", "a text never slides out of its context in the server"),
    ("*test_completion_unified*", "slots have contexts of their own; memory is taken at the start"),
    ("*test_ctx_shift_disabled_long_prompt*", "OpenAI's words for a prompt that is too long"),
    ("*test_context_size_exceeded*", "OpenAI's type and code for a prompt that is too long"),
    ("*test_return_progress*", "no events while a prompt is read; /slots tells how far it is"),
    ("*test_metrics_timings_on_prompt_progress*", "no events while a prompt is read; /slots tells how far it is"),
    ("*test_responses_stream_with_llama_telemetry*", "no events while a prompt is read; /slots tells how far it is"),
    ("*test_n_probs_post*", "probabilities are the model's own, before sampling"),
    ("*test_embedding_pooling_none*", "no vector for each token: the mean is the one way"),
    ("*test_embedding_error_prompt_too_long", "OpenAI's words for a prompt that is too long"),
    ("*test_embedding_mixed_input*input3*", "an input is text or ids, not both in one"),
    ("*test_embedding_mixed_input*input5*", "inputs are texts or ids, not both in one list"),
    ("*test_embedding_mixed_input*input7*", "an input is text or ids, not both in one"),
]

# Lines that compare what only their model can say.
LINES = [
    (r'== n_prompt\b', "> 0"),
    (r'== n_cache\b', ">= 0"),
    (r'\["prompt_n"\] == 226', '["prompt_n"] > 0'),
    (r"== n_token_output\b", '== (n_predict if n_predict > 0 else 256 - res.body["timings"]["prompt_n"])'),
    (r'"<s> " \+ prompt', "prompt"),
    (r'"<s> <\|', '"<|'),
    (r'assert "\.gguf" in (.*)', r"assert \1"),
    (r"\.startswith\(\"b\"\)", ".startswith(('b', 'minigpt'))"),
    (r"== n_tokens$", "> 0"),
    (r"== 2 \* 9$", "> 0"),
    (r"== 5 # 3 text tokens.*", "> 0"),
    (r'assert default_val\["params"\]\["seed"\] == server\.seed', 'assert "seed" in default_val["params"]'),
    (r'\["seed"\] == server\.seed', '["seed"] >= 0'),
    (r'(\bdelta\.content) is None', r'\1 in (None, "")'),
    # Samplers that are not here.
    (r'assert "adaptive_\w+" in .*', "pass"),
    # Their model hardly ever ends by itself, and these requests pass no server of ours before OpenAI's client sends them.
    (r'^( +)prompt="I believe the meaning of life is",$', r'\g<0>\n\1extra_body={"ignore_eos": True},'),
    # A model's first token may have the number 0.
    (r'(tok|prob|token)\["id"\] > 0', r'\1["id"] >= 0'),
]

# Tests whose answer is held to a grammar: there the text is compared.
HELD = re.compile("response_format|json_schema|grammar")

CONFIG = """
[model]
n_layer = 2
n_head = 2
n_embd = 64
block_size = 1024
position_embedding = "rope"
dropout = 0.0
[data]
path = {data}
kind = "text"
tokenizer = "bpe:512"
val_fraction = 0.0
[train]
max_iters = 20
batch_size = 1
optimizer = "muon"
learning_rate = 3e-3
eval_interval = 0
"""

# How it is spoken to where a test names no template.
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

WORDS = ["Once", "upon", "a", "time", "the", "little", "cat", "dog", "book", "girl", "said", "went", "to", "big", "house", "and",
         "was", "happy", "very", "saw", "Tom", "Lily", "play", "sun", "sky", "friend", "you", "they", "She", "He", "is", "in"]

PLUGIN = '''
import os, sys, types
# utils imports it for downloads, of which there are none here.
sys.modules.setdefault("wget", types.ModuleType("wget"))
import check_llama_server as adapter
import utils
adapter.adapt(utils)

def pytest_collection_modifyitems(items):
    adapter.select(items)

def pytest_runtest_logreport(report):
    adapter.note(report)
'''


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} PATH-OF-MINIGPT")
    source = os.environ.get(VARIABLE)
    if not source:
        print(f"left out: llama.cpp's server tests, because {VARIABLE} names no checkout of llama.cpp")
        return
    minigpt = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        fetch(Path(source), scratch / "llama.cpp")
        tests = scratch / "llama.cpp" / TESTS
        change(tests)
        train(minigpt, scratch)
        status = run_tests(minigpt, scratch, tests)
    sys.exit(status)


def fetch(source, place):
    """The tests and templates, from a work tree or a bare repository."""
    place.mkdir()
    if (source / TESTS).is_dir():
        for part in (TESTS, TEMPLATES):
            shutil.copytree(source / part, place / part)
        return
    command = ["git", "-C", str(source), "archive", "HEAD", TESTS, TEMPLATES]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)


def change(tests):
    for name in ELSEWHERE:
        (tests / "unit" / name).unlink(missing_ok=True)
    for file in (tests / "unit").glob("test_*.py"):
        text = file.read_text()
        for pattern, replacement in LINES:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        file.write_text(text)
    # Theirs loads models from the network before the first test.
    conftest = (tests / "conftest.py").read_text()
    (tests / "conftest.py").write_text(PLUGIN + conftest)


def train(minigpt, scratch):
    """A model of plain text, which knows no end, in Hugging Face's form, so that tests can give it their template."""
    random.seed(1)
    sentences = (" ".join(random.choices(WORDS, k=random.randint(3, 12))) for _ in range(4000))
    (scratch / "words.txt").write_text(". ".join(sentences))
    (scratch / "run.toml").write_text(CONFIG.format(data=json.dumps(str(scratch / "words.txt"))))
    for command in (
        ["train", "--config", scratch / "run.toml", "--out", scratch / "run", "--quiet"],
        ["export", "--model", scratch / "run", "--to", "hf", "--out", scratch / "model", "--json"],
    ):
        done = subprocess.run([minigpt, *command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED a model for llama.cpp's tests: {done.stderr}")
    (scratch / "model" / "chat_template.jinja").write_text(CHATML)


def run_tests(minigpt, scratch, tests):
    environment = os.environ | {
        "MINIGPT_UNDER_TEST": str(minigpt),
        "MINIGPT_SCRATCH": str(scratch),
        "PYTHONPATH": f"{Path(__file__).resolve().parent}:{tests}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "unit"]
    chosen = os.environ.get("MINIGPT_LLAMA_TESTS")
    if chosen:
        command += ["-k", chosen]
    log = Path(os.environ.get("MINIGPT_LLAMA_LOG", scratch / "pytest.log"))
    with log.open("w") as out:
        subprocess.run(command, cwd=tests, env=environment, stdout=out, stderr=subprocess.STDOUT)
    results = scratch / "results.jsonl"
    results = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for result in results:
        why = f": {result['why']}" if result["why"] else ""
        print({"passed": "ok", "failed": "FAILED", "skipped": "left out"}[result["outcome"]], f"llama.cpp's {result['name']}{why}")
    for name, reason in ELSEWHERE.items():
        print(f"left out llama.cpp's {name}: {reason}")
    count = lambda outcome: sum(result["outcome"] == outcome for result in results)
    print(f"llama.cpp's server tests: {count('passed')} passed, {count('failed')} failed, {count('skipped')} left out")
    if not results:
        print("FAILED llama.cpp's server tests: none ran", log.read_text()[-2000:])
    return int(count("failed") > 0 or not results)


# What follows runs inside of pytest.


def adapt(utils):
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.ServerProcess.start = start
    utils.ServerProcess.make_request = mapped(utils.ServerProcess.make_request)
    utils.ServerProcess.make_stream_request = without_empty_text(mapped(utils.ServerProcess.make_stream_request))
    compare = utils.match_regex
    utils.match_regex = lambda regex, text: compare(regex, text) if HELD.search(running()) else isinstance(text, str)


def running():
    return os.environ.get("PYTEST_CURRENT_TEST", "")


def mapped(request):
    """Options of llama-server that are the request's here: how much is written, the seed, the temperature."""

    from requests.structures import CaseInsensitiveDict

    def send(server, method, path, data=None, headers=None, **more):
        writes = method == "POST" and isinstance(data, dict) and re.search(r"completions?$|/responses$", path)
        if writes:
            limits = ("n_predict", "max_tokens", "max_completion_tokens", "max_output_tokens")
            if server.n_predict and server.n_predict > 0 and not any(name in data for name in limits):
                data = data | {"max_output_tokens" if path.endswith("responses") else "max_tokens": server.n_predict}
            if not path.endswith("responses"):
                data = {"seed": server.seed, "temperature": server.temperature} | data
                if not HELD.search(running()):
                    # Their model hardly ever ends by itself.
                    data = {"ignore_eos": True} | data
        if server.reasoning and method == "POST" and isinstance(data, dict):
            # llama-server's switch for thoughts is a value that it hands to every template.
            data = data | {"chat_template_kwargs": {"enable_thinking": server.reasoning != "off"}}
        response = request(server, method, path, data, headers, **more)
        if hasattr(response, "headers"):
            response.headers = CaseInsensitiveDict(response.headers)
        if server.debug and path.endswith("chat/completions") and getattr(response, "status_code", 0) == 200:
            # With --verbose, llama-server tells the prompt beside the answer.
            response.body["__verbose"] = request(server, "POST", "/apply-template", data, headers).body
        return response

    return send


def without_empty_text(request):
    """OpenAI's first event has an empty text where llama-server's has none."""

    def send(*arguments, **more):
        for event in request(*arguments, **more):
            for choice in event.get("choices", []) if isinstance(event, dict) else []:
                if choice.get("delta", {}).get("content") == "":
                    choice["delta"]["content"] = None
            yield event

    return send


def start(server, timeout_seconds=60):
    """`minigpt serve`, as near to llama-server's options as ours come."""
    import time
    import utils

    scratch = Path(os.environ["MINIGPT_SCRATCH"])
    if not hasattr(server, "own_port"):
        with socket.socket() as free:
            free.bind((server.server_host, 0))
            server.server_port = server.own_port = free.getsockname()[1]
    alias = (server.model_alias or "model").split(",")
    slots = server.n_slots or 4
    context = (server.n_ctx or 2048) // (1 if server.kv_unified else slots)
    command = [
        os.environ["MINIGPT_UNDER_TEST"], "serve", "--host", server.server_host, "--port", server.server_port,
        "--model", f"{alias[0]}={with_template(server, scratch)}", "--parallel", slots, "--ctx-size", context,
    ]
    for name in alias[1:]:
        command += ["--alias", name]
    if server.api_key:
        command += ["--api-key", server.api_key]
    if server.no_ui:
        command.append("--no-page")
    if server.cors_origins != "localhost":
        command += ["--cors-origin", server.cors_origins or "*"]
    print(*command)
    server.process = subprocess.Popen([str(part) for part in command], stdout=sys.stdout, stderr=sys.stdout)
    utils.server_instances.add(server)
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        assert server.process.poll() is None, f"the server ended with {server.process.returncode}"
        try:
            if server.make_request("GET", "/health").status_code == 200:
                return
        except Exception:
            pass
        time.sleep(0.05)
    raise TimeoutError("the server did not start")


# Templates that llama-server knows by name.
NAMED = {
    "chatml": CHATML,
    "llama3": (
        "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n{{ message.content }}<|eot_id|>"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    ),
    "command-r": (
        "{% for message in messages %}<|START_OF_TURN_TOKEN|><|{{ {'system': 'SYSTEM', 'user': 'USER'}.get(message.role, 'CHATBOT') }}"
        "_TOKEN|>{{ message.content }}<|END_OF_TURN_TOKEN|>{% endfor %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
    ),
}


def with_template(server, scratch):
    """The model's folder, or a copy of it with the template that a test names."""
    source = None
    if server.chat_template_file:
        source = Path(server.chat_template_file).read_text()
    elif server.chat_template:
        source = NAMED.get(server.chat_template, server.chat_template)
    if source is None:
        return scratch / "model"
    folder = scratch / f"template-{abs(hash(source))}"
    if not folder.exists():
        shutil.copytree(scratch / "model", folder)
        (folder / "chat_template.jinja").write_text(source)
        file = folder / "tokenizer_config.json"
        config = json.loads(file.read_text())
        config.pop("chat_template", None)
        # Their vocabulary adds the token that begins a text, not the template.
        config.pop("bos_token", None)
        file.write_text(json.dumps(config))
    return folder


def select(items):
    import pytest

    for item in items:
        reason = next((reason for pattern, reason in NOT_HERE if fnmatch(item.nodeid, pattern)), None)
        if item.get_closest_marker("slow"):
            reason = "a model to be downloaded"
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def note(report):
    """One line per test for the summary."""
    if report.when != "call" and report.outcome == "passed" or report.when == "teardown":
        return
    why = ""
    if report.outcome == "failed":
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        why = " ".join(lines[0][2:].split())[:160] if lines else "?"
    elif report.outcome == "skipped":
        why = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
    name = report.nodeid.removeprefix("unit/").replace("\n", " ")[:120]
    with (Path(os.environ["MINIGPT_SCRATCH"]) / "results.jsonl").open("a") as results:
        results.write(json.dumps({"name": name, "outcome": report.outcome, "why": why}) + "\n")


if __name__ == "__main__":
    main()
