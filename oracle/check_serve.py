"""`minigpt serve`, in the hands of those who would use it: OpenAI's clients for Python and Node, LangChain, Pydantic AI,
Outlines, lm-evaluation-harness, and schemathesis, which tries what /openapi.json says and what it does not say."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import lm_eval
import openai
import outlines
from langchain_openai import ChatOpenAI
from lm_eval.tasks import TaskManager
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from check_chat import ANIMALS, QUESTION, conversation, train
from program import binary, run
from report import Report

HERE = Path(__file__).resolve().parent
NODE_CLIENT = "openai@7.55.0"
TOLERANCE = 1e-4
CONTEXT = 128
QUESTIONS = [QUESTION.format(animal) for animal, _ in ANIMALS]

TASK = """
task: animals
dataset_path: json
dataset_kwargs:
  data_files: {{test: "{data}"}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}<sep>"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
"""


def main():
    minigpt, report = binary(), Report()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        place, folder = scratch / "conversation-bpe", scratch / "hf"
        with report.check("a model to serve is trained"):
            train(minigpt, place, conversation, "bpe:320")
            run(minigpt, "export", "--model", place / "run", "--to", "hf", "--out", folder, "--json")
        with serving(minigpt, f"animals={place / 'run'}") as address:
            judge_openai(report, address)
            with report.check("LangChain's ChatOpenAI"):
                check_langchain(address)
            with report.check("LangChain: structured output"):
                check_langchain_structured(address)
            with report.check("Pydantic AI: structured output"):
                check_pydantic_ai(address)
            with report.check("Outlines: structured output"):
                check_outlines(client(address))
            with report.check("openai for Node"):
                check_node(address, scratch)
            judge_harness(report, address, folder, scratch)
            with report.check("schemathesis"):
                check_schema(address)
        with serving(minigpt, place / "run", "--api-key", "secret") as address:
            with report.check("openai: a wrong key is an AuthenticationError, the right one works"):
                check_key(address)
        with serving(minigpt, place / "run", "--parallel", "1", "--max-queue", "1") as address:
            with report.check("openai: a full queue is tried again until there is room"):
                check_retries(address)
    report.close()


@contextmanager
def serving(minigpt, model, *options):
    """A server with a model, on a free port."""
    command = [minigpt, "serve", "--model", model, "--port", "0", "--json", *options]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, f"the server ended with {process.returncode}"


def client(address, **options):
    return openai.OpenAI(base_url=f"{address}/v1", **{"api_key": "any", "max_retries": 0} | options)


def judge_openai(report, address):
    with report.check("openai: models"):
        models = client(address).models.list().data
        assert [model.id for model in models] == ["animals"], f"{models}"
        assert client(address).models.retrieve("animals").owned_by == "minigpt"
    with report.check("openai: chat, whole and as a stream"):
        check_chat(client(address))
    with report.check("openai: texts with log-probabilities, whole and as a stream"):
        check_completions(client(address))
    with report.check("openai: errors have their classes"):
        check_errors(client(address))
    with report.check("openai: structured output"):
        check_structured(client(address))
    with report.check("openai: responses, whole and as a stream"):
        check_responses(client(address))
    with report.check("openai: embeddings, as bytes and as numbers"):
        check_embeddings(client(address))
    with report.check("openai: many at once, asynchronously"):
        asyncio.run(check_async(address))


def check_chat(api):
    for animal, sound in ANIMALS:
        asked = [{"role": "user", "content": QUESTION.format(animal)}]
        whole = api.chat.completions.create(
            model="animals", messages=asked, temperature=0, max_completion_tokens=40, logprobs=True, top_logprobs=2
        )
        choice = whole.choices[0]
        said = choice.message.content
        assert said == f"The {animal} says {sound}.", f"it says {said!r}"
        assert choice.finish_reason == "stop" and choice.message.role == "assistant"
        spelt = bytes(byte for token in choice.logprobs.content for byte in token.bytes).decode()
        assert spelt == said, f"its tokens are {spelt!r}"
        assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
        stream = api.chat.completions.create(
            model="animals", messages=asked, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert chunks[0].choices[0].delta.role == "assistant"
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == said, f"the stream says {text!r}"
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        assert chunks[-2].choices[0].finish_reason == "stop"
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTIONS[0]}]}]
    assert api.chat.completions.create(model="animals", messages=parts, temperature=0).choices[0].message.content
    several = api.chat.completions.create(model="animals", messages=asked, n=3, seed=1, temperature=1.5, max_tokens=9)
    assert [choice.index for choice in several.choices] == [0, 1, 2]


def check_completions(api):
    prompts = [f"{question}<sep>" for question in QUESTIONS]
    asked = dict(model="animals", prompt=prompts, max_tokens=8, temperature=0, logprobs=2, echo=True)
    whole = api.completions.create(**asked)
    assert len(whole.choices) == len(prompts)
    for prompt, choice in zip(prompts, whole.choices):
        lists = choice.logprobs
        assert choice.text.startswith(prompt)
        assert lists.token_logprobs[0] is None and lists.top_logprobs[0] is None
        assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.top_logprobs) == len(lists.text_offset)
        for token, number, top in list(zip(lists.tokens, lists.token_logprobs, lists.top_logprobs))[1:]:
            assert top[token] == number, f"{token!r} has {number} and {top}"
    texts = {index: "" for index in range(len(prompts))}
    for chunk in api.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert list(texts.values()) == [choice.text for choice in whole.choices], f"{texts}"
    stopped = api.completions.create(model="animals", prompt=prompts[0], temperature=0, stop=["says"], max_tokens=30)
    assert stopped.choices[0].text == "The cat " and stopped.choices[0].finish_reason == "stop", f"{stopped}"


class Sound(BaseModel):
    """What the model is to say, though it has never seen JSON."""

    loud: bool
    times: int = Field(ge=1, le=9)


def check_structured(api):
    asked = dict(model="animals", messages=[{"role": "user", "content": QUESTIONS[0]}], max_completion_tokens=118)
    for temperature in (0, 1, 2):
        whole = api.chat.completions.parse(**asked, response_format=Sound, temperature=temperature, seed=1, n=2 if temperature else 1)
        assert all(isinstance(choice.message.parsed, Sound) for choice in whole.choices), f"{whole}"
    schema = Sound.model_json_schema()
    with api.chat.completions.stream(**asked, response_format=Sound, temperature=0) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Sound)
    for field in ({"json_schema": schema}, {"guided_json": schema}, {"structured_outputs": {"json": schema}}):
        text = api.completions.create(model="animals", prompt="JSON:", max_tokens=118, temperature=0, extra_body=field).choices[0].text
        jsonschema.validate(json.loads(text), schema)
    said = api.completions.create(model="animals", prompt="x", max_tokens=9, extra_body={"grammar": 'root ::= ("ha" | "哈"){3}'})
    assert said.choices[0].text.replace("哈", "ha") == "hahaha", f"{said}"
    try:
        api.chat.completions.create(**asked, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})
    except openai.BadRequestError as error:
        assert error.param == "response_format" and "not" in error.message, f"{error}"
    else:
        raise AssertionError("a schema that can't be enforced is accepted")


def check_langchain_structured(address):
    model = ChatOpenAI(base_url=f"{address}/v1", api_key="any", model="animals", temperature=0, max_retries=0, max_tokens=118)
    answer = model.with_structured_output(Sound, method="json_schema").invoke(QUESTIONS[0])
    assert isinstance(answer, Sound), f"{answer}"


def check_pydantic_ai(address):
    provider = OpenAIProvider(base_url=f"{address}/v1", api_key="any")
    agent = Agent(OpenAIChatModel("animals", provider=provider), output_type=NativeOutput(Sound))
    answer = agent.run_sync(QUESTIONS[0], model_settings={"max_tokens": 118}).output
    assert isinstance(answer, Sound), f"{answer}"


def check_outlines(api):
    model = outlines.from_openai(api, "animals")
    answer = model(QUESTIONS[0], Sound, max_tokens=118)
    assert Sound.model_validate_json(answer), f"{answer}"


def check_errors(api):
    for problem, code, asked in [
        (openai.BadRequestError, None, dict(model="animals", prompt="a", suffix="b")),
        (openai.BadRequestError, "context_length_exceeded", dict(model="animals", prompt="a b " * 999)),
        (openai.BadRequestError, None, dict(model="animals", prompt="a", temperature=-1)),
        (openai.BadRequestError, None, dict(model="animals", prompt="a", n=10**9)),
    ]:
        try:
            api.completions.create(**asked)
        except problem as error:
            assert error.code == code and error.message, f"{asked} has the code {error.code}"
        else:
            raise AssertionError(f"{asked} is no error")


def check_responses(api):
    asked = dict(model="animals", input=QUESTIONS[0], max_output_tokens=30, temperature=0)
    whole = api.responses.create(**asked)
    said = ""
    for event in api.responses.create(**asked, stream=True):
        said += event.delta if event.type == "response.output_text.delta" else ""
    assert said == whole.output_text and whole.status in ("completed", "incomplete"), f"{said!r} {whole}"


def check_embeddings(api):
    whole = api.embeddings.create(model="animals", input=QUESTIONS)  # the client asks for base64 by itself
    numbers = api.embeddings.create(model="animals", input=QUESTIONS, encoding_format="float")
    assert len(whole.data) == len(QUESTIONS)
    for one, other in zip(whole.data, numbers.data):
        assert max(abs(a - b) for a, b in zip(one.embedding, other.embedding)) < 1e-6
        assert abs(sum(x * x for x in one.embedding) - 1) < 1e-4


async def check_async(address):
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as api:
        async def one(animal, sound):
            asked = [{"role": "user", "content": QUESTION.format(animal)}]
            stream = await api.chat.completions.create(model="animals", messages=asked, temperature=0, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            assert text == f"The {animal} says {sound}.", f"it says {text!r}"

        await asyncio.gather(*(one(*pair) for pair in ANIMALS * 12))


def check_key(address):
    for key, right in [("wrong", False), ("secret", True)]:
        try:
            client(address, api_key=key).models.list()
            assert right, "a wrong key is as good as any"
        except openai.AuthenticationError as error:
            assert not right and error.code == "invalid_api_key", f"{error}"


def check_retries(address):
    asked = dict(model="", prompt="The", max_tokens=100, temperature=0, extra_body={"ignore_eos": True})

    def ask(retries):
        return client(address, max_retries=retries).completions.create(**asked).choices[0].text

    with ThreadPoolExecutor(24) as pool:
        refused = 0
        for one in [pool.submit(ask, 0) for _ in range(24)]:
            try:
                one.result()
            except openai.RateLimitError as error:
                assert error.response.headers["retry-after"] == "1"
                refused += 1
        assert refused > 0, "nobody was refused"
        texts = {one.result() for one in [pool.submit(ask, 60) for _ in range(24)]}
    assert len(texts) == 1, f"{texts}"


def check_langchain(address):
    model = ChatOpenAI(base_url=f"{address}/v1", api_key="any", model="animals", temperature=0, max_retries=0)
    wants = [f"The {animal} says {sound}." for animal, sound in ANIMALS]
    assert model.invoke(QUESTIONS[0]).content == wants[0]
    assert "".join(chunk.content for chunk in model.stream(QUESTIONS[0])) == wants[0]
    assert [answer.content for answer in model.batch(QUESTIONS)] == wants
    talk = [("user", QUESTIONS[0]), ("assistant", wants[0]), ("user", "How loud?")]
    answer = model.invoke(talk)
    assert answer.content == "The cat is loud.", f"it says {answer.content!r}"
    assert answer.usage_metadata["output_tokens"] > 0


def check_node(address, scratch):
    for program in ("node", "npm"):
        assert shutil.which(program), f"{program} is not installed"
    place = HERE.parent / "target" / "oracle-node"
    place.mkdir(parents=True, exist_ok=True)
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, NODE_CLIENT)
    run("node", HERE / "serve.mjs", place, address)


def judge_harness(report, address, folder, scratch):
    """The harness asks our server, and transformers the same; both must say the same of every choice."""
    data = scratch / "animals.jsonl"
    sounds = [sound for _, sound in ANIMALS]
    with data.open("w") as lines:
        for answer, (animal, _) in enumerate(ANIMALS):
            choices = [f"The {animal} says {sound}." for sound in sounds]
            lines.write(json.dumps({"question": QUESTION.format(animal), "choices": choices, "answer": answer}) + "\n")
    (scratch / "tasks").mkdir()
    (scratch / "tasks" / "animals.yaml").write_text(TASK.format(data=data))
    os.environ["OPENAI_API_KEY"] = "any"
    tasks = TaskManager(include_path=str(scratch / "tasks"))
    want = evaluate("hf", f"pretrained={folder},dtype=float32", tasks)
    assert any(greedy for _, greedy in want) and not all(greedy for _, greedy in want), "nothing to tell apart"
    for backend, more in [("huggingface", f",tokenizer={folder}"), ("remote", "")]:
        with report.check(f"lm_eval local-completions, tokenizer_backend={backend}"):
            where = f"base_url={address}/v1/completions,model=animals,max_length={CONTEXT},num_concurrent=4"
            ours = evaluate("local-completions", f"{where},tokenizer_backend={backend}{more}", tasks)
            assert len(ours) == len(want), f"{len(ours)} of {len(want)} choices"
            for (our, our_greedy), (their, their_greedy) in zip(ours, want):
                assert abs(our - their) <= TOLERANCE, f"the log-likelihood is {our}, transformers says {their}"
                assert our_greedy == their_greedy, f"is_greedy is {our_greedy}, transformers says {their_greedy}"


def evaluate(model, arguments, tasks):
    """Log-likelihood and whether it is the greedy text, of every choice of every question."""
    done = lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=["animals"], task_manager=tasks, log_samples=True, bootstrap_iters=0,
        batch_size=1, device="cpu" if model == "hf" else None, verbosity="ERROR",
    )
    samples = sorted(done["samples"]["animals"], key=lambda sample: sample["doc_id"])
    assert done["results"]["animals"]["acc,none"] == 1.0, f"{done['results']}"
    return [tuple(choice) for sample in samples for choice in sample["filtered_resps"]]


def check_schema(address):
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [
        Path(sys.executable).parent / "schemathesis", "run", f"{address}/openapi.json", "--checks", checks,
        "--max-examples", "40", "--seed", "1", "--workers", "2",
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


if __name__ == "__main__":
    main()
