# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompts of decoders through the command line: no mask, nothing behind the prompt, label words by what they add to it,
chat templates, and what bad input says."""

import json
import shutil
from pathlib import Path

import h5py
import pytest
from test_prompts import words_of
from test_text import table, write_tsv
from text_models import WORDS, write_decoder, write_t5
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from command import main
from splits import SPLIT_NAMES
from texts.chat import in_chat
from texts.model import TextModel
from texts.prompts import parse
from texts.tasks import read

KNOWN = [*WORDS, "mood", "A", "B"]
PROMPT = "the {text} mood:"
MOODS = ["--label", "mood", "--prompt", PROMPT, "--words", "pos=good", "neg=bad"]
CHAT = (
    "{{ bos_token }}{% for message in messages %}<turn>{{ message['role'] }}\n{{ message['content'] | trim }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("llama"), KNOWN)


@pytest.fixture(scope="session")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("qwen2"), KNOWN, "qwen2")


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("gpt2"), KNOWN, "gpt2")


def packed(tmp_path: Path, model: Path, *arguments: str) -> h5py.File:
    source = write_tsv(tmp_path / "mood.tsv", table())
    call = ["text", str(source), *MOODS, "--model", str(model), "--out", str(tmp_path / "out"), "--replace"]
    assert main([*call, "--tokens", "64", *arguments]) == 0
    return h5py.File(tmp_path / "out" / "mood.h5")


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
def test_prompts_are_as_transformers_makes_them(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    model: Path = request.getfixturevalue(kind)
    theirs = AutoTokenizer.from_pretrained(model)
    assert isinstance(theirs, PreTrainedTokenizerFast)
    whole = {tuple(theirs(f"the {row['text']} mood:").input_ids) for row in table()}
    with packed(tmp_path, model) as file:
        assert file.attrs["prompt"] == PROMPT and file.attrs["first_tokens"] == "" and file.attrs["truncated"] == 0
        assert not {"mask", "chat", "new_tokens"} & set(file.attrs)
        head = file["head"]
        assert head.attrs["kind"] == "words" and list(head.attrs["words"]) == ["bad", "good"]
        assert head["tokens"][()].tolist() == theirs.convert_tokens_to_ids(["Ġbad", "Ġgood"])
        for split in SPLIT_NAMES:
            assert set(file[split]) == {"inputs", "lengths", "labels", "split_key"}
            for row, length in enumerate(file[f"{split}/lengths"]):
                assert tuple(file[f"{split}/inputs"][row][:length].tolist()) in whole
                assert words_of(file, model, split, row)[0] == "<s>"


def test_what_is_too_long_loses_its_end_and_the_template_stays(tmp_path: Path, llama: Path) -> None:
    whole = {tuple(row["text"].split()) for row in table()}
    with packed(tmp_path, llama, "--tokens", "7") as file:
        assert file.attrs["truncated"] == 200
        for row in range(20):
            words = words_of(file, llama, "train", row)
            assert len(words) == 7 and words[:2] == ["<s>", "the"] and words[-2:] == ["Ġmood", ":"]
            kept = tuple(word.removeprefix("Ġ") for word in words[2:-2])
            assert len(kept) == 3 and any(text[:3] == kept for text in whole)


def test_an_end_that_the_tokenizer_puts_behind_a_text_is_left_off(tmp_path: Path, llama: Path) -> None:
    ended = write_decoder(tmp_path / "ended", KNOWN, ends="</s>")
    assert TextModel(ended).encoded(["the"])[0].tokens == ["<s>", "the", "</s>"]
    for tokens in ("64", "7"):
        with packed(tmp_path, llama, "--tokens", tokens) as file:
            wanted = [file[f"{split}/inputs"][()].tolist() for split in SPLIT_NAMES]
            cut = file.attrs["truncated"]
        with packed(tmp_path, ended, "--tokens", tokens) as file:
            assert [file[f"{split}/inputs"][()].tolist() for split in SPLIT_NAMES] == wanted
            assert file.attrs["truncated"] == cut


def test_a_word_is_read_by_the_first_token_that_it_adds(tmp_path: Path, llama: Path) -> None:
    known = TextModel(llama)
    with packed(tmp_path, llama, "--words", "pos=goodness", "neg=very bad") as file:
        assert file.attrs["first_tokens"] == "very bad, goodness"
        tokens = [known.tokenizer.id_to_token(int(token)) for token in file["head/tokens"]]
        assert tokens == ["Ġvery", "Ġgood"]
    sentencepiece = write_t5(tmp_path / "sentencepiece", KNOWN)  # whose first word brings a space of its own
    config = {"model_type": "llama", "vocab_size": 500, "max_position_embeddings": 64}
    (sentencepiece / "config.json").write_text(json.dumps(config))
    with packed(tmp_path, sentencepiece) as file:
        known = TextModel(sentencepiece)
        assert [known.tokenizer.id_to_token(int(token)) for token in file["head/tokens"]] == ["▁bad", "▁good"]
        assert words_of(file, sentencepiece, "test", 0)[-1] == ":"  # the end of a T5's texts is left off


def test_a_text_of_one_word_has_a_token_though_that_begins_at_the_templates_space(llama: Path) -> None:
    model, prompt = TextModel(llama), parse("the {text} mood:", "here", mask=False)
    assert model.encoded(["the film mood:"])[0].offsets[2] == (3, 8) and prompt.fill({"text": "film"}, "")[1] == [
        (4, 8)
    ]
    tokens = model.encode_prompts(prompt, [["film"], ["film was bad"]], 6)
    assert tokens.truncated == 1 and tokens.lengths.tolist() == [5, 6]
    words = [model.tokenizer.id_to_token(int(token)) for token in tokens.ids[1]]
    assert words == ["<s>", "the", "Ġfilm", "Ġwas", "Ġmood", ":"]


def test_a_new_line_is_written_with_a_backslash(tmp_path: Path, llama: Path) -> None:
    with packed(tmp_path, llama, "--prompt", "{text}\\nmood:") as file:
        assert file.attrs["prompt"] == "{text}\nmood:"
        assert "Ċ" in words_of(file, llama, "test", 0)


@pytest.mark.parametrize("named", ["chat_template.jinja", "tokenizer_config.json", "several"])
def test_a_chat_template_stands_around_the_prompt(tmp_path: Path, llama: Path, named: str) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(llama, folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    if named == "chat_template.jinja":
        (folder / named).write_text(CHAT)
    else:
        several = [{"name": "tool", "template": "x"}, {"name": "default", "template": CHAT}]
        about["chat_template"] = several if named == "several" else CHAT
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
    theirs = AutoTokenizer.from_pretrained(folder, chat_template=CHAT)

    def said(text: str) -> tuple[int, ...]:
        messages = [{"role": "user", "content": f"the {text} mood:"}]
        return tuple(theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    whole = {said(row["text"]) for row in table()}
    with packed(tmp_path, folder, "--chat") as file:
        assert file.attrs["prompt"] == PROMPT
        assert file.attrs["chat"] == "<s><turn>user\n{prompt}</s>\n<turn>assistant\n"
        for split in SPLIT_NAMES:
            for row, length in enumerate(file[f"{split}/lengths"]):
                assert tuple(file[f"{split}/inputs"][row][:length].tolist()) in whole
        first = [theirs.encode(word, add_special_tokens=False)[0] for word in ("bad", "good")]
        assert file["head/tokens"][()].tolist() == first  # behind a new line no space stands


def test_an_answer_has_the_space_that_the_chat_template_gives_it(tmp_path: Path, llama: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    for between, gap in ((" ", " "), ("", "")):
        template = "{% for m in messages %}{% if m.role == 'user' %}<turn>{{ m.content }}</s>{% else %}"
        (tmp_path / "chat_template.jinja").write_text(template + between + "{{ m.content }}{% endif %}{% endfor %}")
        prompt = in_chat(parse(PROMPT, "here", mask=False), tmp_path)
        assert prompt.gap == gap and not prompt.special


@pytest.mark.parametrize(("begun", "before_answer"), [("", "<think>\n\n</think>\n\n"), ("<think>\n", "")])
def test_a_thinking_model_is_read_where_its_answer_stands(tmp_path: Path, begun: str, before_answer: str) -> None:
    """A template may write an empty thought before an answer, or begin a thought for the model."""
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text(
        "{% for m in messages %}<turn>{% if m.role == 'assistant' %}" + before_answer + "{% endif %}{{ m.content }}"
        "{% endfor %}{% if add_generation_prompt %}<turn>" + begun + "{% endif %}"
    )
    prompt = in_chat(parse(PROMPT, "here", mask=False), tmp_path)
    assert prompt.chat == "<turn>{prompt}<turn>" + before_answer and prompt.gap == ""


def test_a_token_without_a_row_is_refused_where_a_text_has_it(
    tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Gemma 3 of texts has such a token, for pictures."""
    folder = tmp_path / "more"
    shutil.copytree(llama, folder)
    tokenizer = TextModel(folder).tokenizer
    tokenizer.add_special_tokens(["<picture>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    assert len(packed(tmp_path, folder)["train/inputs"]) > 0
    source = write_tsv(tmp_path / "mood.tsv", [row | {"text": row["text"] + " <picture>"} for row in table()])
    call = ["text", str(source), *MOODS, "--model", str(folder), "--out", str(tmp_path / "other"), "--tokens", "64"]
    assert main(call) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "gives a text token" in captured.err, captured.err


def test_the_tables_prompts_are_those_of_a_t5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cola").mkdir()
    rows = [f"{i % 2}\tthe {WORDS[i % 15]} {WORDS[i // 2 % 15]} {i}" for i in range(60)]
    (tmp_path / "cola" / "train.tsv").write_text("\n".join(rows) + "\n")
    larger = write_decoder(tmp_path / "larger", KNOWN, max_position_embeddings=300)
    call = ["text-tasks", "--data-location", str(tmp_path), "--out", str(tmp_path / "out"), "--model", str(larger)]
    assert main([*call, "--only", "cola", "--tokens", "200"]) == 0
    with h5py.File(tmp_path / "out" / "cola.h5") as file:
        assert list(file["head"].attrs["words"]) == ["acceptable", "unacceptable"]
        said = TextModel(larger).tokenizer.decode(file["test/inputs"][0][: file["test/lengths"][0]].tolist())
        assert said.startswith("Indicate if the following sentence") and said.endswith("or 'unacceptable'.")
    (tmp_path / "piqa").mkdir()
    goals = [{"goal": f"the {i}", "sol1": "good", "sol2": WORDS[i % 15], "label": i % 2} for i in range(60)]
    (tmp_path / "piqa" / "train.jsonl").write_text("\n".join(json.dumps(goal) for goal in goals) + "\n")
    assert main([*call, "--only", "piqa", "--tokens", "64"]) == 0  # which has a prompt with a mask at its end
    with h5py.File(tmp_path / "out" / "piqa.h5") as file:
        assert file.attrs["prompt"] == "{goal} A: {sol1} B: {sol2} Answer:"
        known = TextModel(larger).tokenizer
        assert [known.id_to_token(int(token)) for token in file["head/tokens"]] == ["ĠA", "ĠB"]
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec" / "train.jsonl").write_text('{"text": "a", "coarse_label": 1}\n')
    capsys.readouterr()
    assert main([*call, "--only", "trec"]) == 2
    assert "is a decoder, for which the table has no prompt of trec" in capsys.readouterr().err


def test_whole_answers_are_all_that_they_add_to_the_prompt(tmp_path: Path, llama: Path) -> None:
    """As lm-evaluation-harness scores answers: without an end, and for acc_norm with how many letters they have."""
    known = TextModel(llama)
    words = ["pos=good film", "neg=good bad"]  # which begin alike
    with packed(tmp_path, llama, "--words", *words, "--answers", "whole") as file:
        assert file["head"].attrs["kind"] == "sequences" and "letters" not in file["head"]
        rows = zip(file["head/tokens"][()], file["head/lengths"][()], strict=True)
        tokens = [[known.tokenizer.id_to_token(int(token)) for token in row[:length]] for row, length in rows]
        assert tokens == [["Ġgood", "Ġbad"], ["Ġgood", "Ġfilm"]]
        assert [name.decode() for name in file["class_names"][()]] == ["neg", "pos"]
    words[1] = "neg=good"  # all of which the other begins with
    with packed(tmp_path, llama, "--words", *words, "--answers", "whole", "--score", "acc_norm") as file:
        assert file["head/letters"][()].tolist() == [len("good"), len("good film")]


def test_an_answer_of_text_is_bytes_that_are_joined_before_they_are_letters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_decoder(tmp_path / "model", KNOWN, eos_token_id=2, max_position_embeddings=300)
    (tmp_path / "stsb").mkdir()
    for split in ("train", "validation"):
        rows = [{"sentence1": f"{split} {i}", "sentence2": WORDS[i % 15], "label": i % 5 + 0.4} for i in range(60)]
        (tmp_path / "stsb" / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    call = ["text-tasks", "--data-location", str(tmp_path), "--out", str(tmp_path / "out"), "--model", str(model)]
    assert main([*call, "--only", "stsb", "--tokens", "200"]) == 0
    known = TextModel(model).tokenizer
    with h5py.File(tmp_path / "out" / "stsb.h5") as file:
        pieces = file["head/pieces"][()]
        for target, length, reference in zip(
            file["train/targets"], file["train/target_lengths"], file["train/references"], strict=True
        ):
            assert target[length - 1] == 2 and pieces[2] == b""  # the end, of which nothing is seen
            assert b"".join(pieces[token] for token in target[:length]).strip() == reference
        letters = known.encode("naïve 漢", add_special_tokens=False).ids
        assert b"".join(pieces[token] for token in letters).decode() == "naïve 漢"
    (model / "generation_config.json").write_text('{"eos_token_id": [3, 2]}')  # which says more than config.json
    shutil.rmtree(tmp_path / "out")
    assert TextModel(model).end == 3
    (model / "generation_config.json").write_text('{"eos_token_id": []}')
    assert TextModel(model).end == 2
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"eos_token_id": None}))
    capsys.readouterr()
    assert main([*call, "--only", "stsb", "--tokens", "200"]) == 2
    assert "has no eos_token_id, which ends an answer; expected a token" in capsys.readouterr().err


def test_a_decoder_has_what_a_t5_answers_and_prompts_that_end_with_their_mask(llama: Path) -> None:
    model, table = TextModel(llama), read()
    for name, count in {"12": 10, "choices": 6, "glue": 8}.items():
        tasks = [task for task, belongs in table.values() if name in belongs]
        prompts = [prompt for task in tasks if (prompt := task.prompt_for(model)) is not None]
        assert len(prompts) == count, name
        templates = [prompt.template for prompt in prompts]
        assert all(template == template.rstrip() and "{mask}" not in template for template in templates)
    assert table["cr"][0].prompt_for(model) == parse("{text} It was", "here", mask=False)
    assert table["trec"][0].prompt_for(model) is None  # whose mask stands before the text


BAD_TEMPLATES = {
    "no syntax": ("{% if %}", "expected a chat template that Jinja's sandbox runs"),
    "reaches out": ("{{ ''.__class__.__mro__ }}{{ messages.__class__.__base__.__subclasses__() }}", "sandbox runs"),
    "no end": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than"),
    "too long": ("{% for i in range(99999) %}{{ i }}{% endfor %}", "writes more than"),
    "too large": ("{{ 'a' * 99999999999 }}", "makes what has no bound"),
    "twice": ("{{ messages[0].content }}{{ messages[0].content }}", "writes a message 2 times"),
    "not at all": ("hello", "writes a message 0 times"),
    "refuses": ("{{ raise_exception('no such role') }}", "no such role"),
}


@pytest.mark.parametrize("name", BAD_TEMPLATES)
def test_a_bad_chat_template_gets_one_clear_line(
    name: str, tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("texts.chat.SECONDS_MOST", 0.5)
    template, expected = BAD_TEMPLATES[name]
    folder = tmp_path / "chat"
    shutil.copytree(llama, folder)
    (folder / "chat_template.jinja").write_text(template)
    source = write_tsv(tmp_path / "mood.tsv", table())
    assert main(["text", str(source), *MOODS, "--model", str(folder), "--out", str(tmp_path / "out"), "--chat"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and expected in captured.err, captured.err


def test_bad_calls_get_one_clear_line(tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = ["text", str(write_tsv(tmp_path / "good.tsv", table())), "--label", "mood"]
    t5 = write_t5(tmp_path / "t5", KNOWN)
    small = tmp_path / "small"
    shutil.copytree(llama, small)
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    prompt, words = MOODS[2:4], MOODS[4:]
    cases = {
        "no prompt": (good, "is a decoder; expected --prompt"),
        "a mask": ([*good, "--prompt", "{text} {mask}", *words], "has a {mask}; expected none"),
        "a space": ([*good, "--prompt", "{text} mood: ", *words], "ends in white space; expected a word or a sign"),
        "a new line": ([*good, "--prompt", "{text}\\n", *words], "ends in white space"),
        "new tokens": ([*good, *MOODS[2:], "--new-tokens", str(tmp_path / "x")], "belongs to a masked language model"),
        "a score of first tokens": ([*good, *MOODS[2:], "--score", "acc_norm"], "expected --answers whole"),
        "a beginning": (
            [*good, *prompt, "--words", "neg=bad film", "pos=bad", "--answers", "whole"],
            '"bad film" begins as all of "bad", and is never likelier; expected answers',
        ),
        "one answer": ([*good, *prompt, "--words", "neg=bad", "pos=bad", "--answers", "whole"], "the same tokens"),
        "one beginning": ([*good, *prompt, "--words", "neg=bad", "pos=bad film"], "begin with one token"),
        "no chat template": ([*good, *MOODS[2:], "--chat"], "has no chat template; expected chat_template.jinja"),
        "a T5's chat": ([*good, *MOODS[2:], "--chat", "--model", str(t5)], "--chat: belongs to a decoder"),
        "chat alone": ([*good, "--chat"], "--chat: belongs to --prompt"),
        "too long": ([*good, *MOODS[2:], "--tokens", "65"], "--tokens 65: expected 3 to 64"),
        "a template that does not fit": ([*good, *MOODS[2:], "--tokens", "4"], "takes 5 tokens around its texts'"),
        "another vocabulary": ([*good, *MOODS[2:], "--model", str(small)], "expected at most the model's vocabulary"),
    }
    capsys.readouterr()
    for name, (arguments, expected) in cases.items():
        model = [] if "--model" in arguments else ["--model", str(llama)]
        tokens = [] if "--tokens" in arguments else ["--tokens", "32"]
        assert main([*arguments, *model, *tokens, "--out", str(tmp_path / "out")]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name
