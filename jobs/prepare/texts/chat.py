# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A prompt as a user's message in a decoder's chat template. Templates are programs that came with a model: they run in
Jinja's sandbox, for a bounded time, and give what stands around a message."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from errors import InputError, one_line, shown
from texts.model import read_json
from texts.prompts import Piece, Prompt

TEMPLATE_MOST = 1 << 20  # bytes
TEXT_MOST = 1 << 16  # letters around a message
SECONDS_MOST = 5
MESSAGE, ANSWER = "taugrid's message", "taugrid's answer"


def template_of(folder: Path) -> tuple[Path, str]:
    """The file that has the template, and the template: chat_template.jinja, or what tokenizer_config.json has."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        if path.stat().st_size > TEMPLATE_MOST:
            raise InputError(f"{path}: has more than 1 MiB; expected a chat template")
        try:
            return path, path.read_text("utf-8")
        except ValueError as error:
            raise InputError(f"{path}: {one_line(error)}; expected UTF-8") from None
    path = folder / "tokenizer_config.json"
    template = read_json(path).get("chat_template") if path.is_file() else None
    if isinstance(template, list):  # several by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if not isinstance(template, str) or len(template) > TEMPLATE_MOST:
        raise InputError(f"{folder}: has no chat template; expected chat_template.jinja, or a call without --chat")
    return path, template


def special_tokens(folder: Path) -> dict[str, str]:
    """The names of special tokens that templates write: bos_token and others."""
    path, tokens = folder / "tokenizer_config.json", {}
    for name, token in (read_json(path) if path.is_file() else {}).items():
        content = token.get("content") if isinstance(token, dict) else token
        if name.endswith("_token") and isinstance(content, str):
            tokens[name] = content
    return tokens


def renderer(folder: Path) -> Callable[..., str]:
    """What writes messages in the folder's template. It knows no clock, so that texts do not depend on the day:
    templates that ask whether `strftime_now` is there have a date of their own."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(["*", "**"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            if not numbers or operator == "**" or max(abs(left), abs(right)) > TEXT_MOST:
                raise ValueError(f"{operator} makes what has no bound")
            return left * right

    def refuse(message: object) -> None:
        raise ValueError(str(message))

    path, source = template_of(folder)
    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = refuse
    known = special_tokens(folder)

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"takes more than {SECONDS_MOST} s")

    def rendered(messages: list[dict[str, str]], prompted: bool) -> str:
        text, before = "", signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, SECONDS_MOST)
        try:
            template = environment.from_string(source)
            for part in template.generate(messages=messages, add_generation_prompt=prompted, **known):
                text += part
                if len(text) > TEXT_MOST:
                    raise ValueError(f"writes more than {TEXT_MOST} letters")
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except Exception as error:  # a template can raise nearly anything
            raise InputError(f"{path}: {one_line(error)}; expected a chat template that Jinja's sandbox runs") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return text

    return rendered


def in_chat(prompt: Prompt, folder: Path) -> Prompt:
    """The prompt with what the template has around a user's message, the beginning of the assistant's answer behind it.
    A template that writes the message twice, or not, is refused."""
    rendered = renderer(folder)
    said = [{"role": "user", "content": MESSAGE}]
    around = rendered(said, True).split(MESSAGE)
    if len(around) != 2:
        raise InputError(
            f"{folder}: the chat template writes a message {len(around) - 1} times; expected once, or a call without "
            "--chat"
        )
    before, behind = around
    # What the template writes before an answer: an empty thought, say, or less where it begins one for the model.
    answered = rendered([*said, {"role": "assistant", "content": ANSWER}], False).split(ANSWER)[0].split(MESSAGE)[-1]
    if answered.rstrip(" ") != behind.rstrip(" "):
        behind = answered.rstrip(" ")
    gap = " " if answered.endswith(" ") and not behind.endswith(" ") else ""
    pieces = (Piece(before), *prompt.pieces, Piece(behind))
    if prompt.template != prompt.template.strip():
        raise InputError(f'--prompt "{shown(prompt.template)}": has white space around it; expected none in a message')
    return replace(prompt, pieces=pieces, gap=gap, special=False, chat=before + "{prompt}" + behind)
