"""The command line of taugrid's data preparation."""

import argparse
import sys

from arguments import parser
from errors import InputError, checked_text, line
from stopping import RESUMABLE, Stopped, stoppable


def say(line: str) -> None:
    print(line.encode(errors="backslashreplace").decode(), flush=True)  # of a path that is no UTF-8


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        for name, value in vars(options).items():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    checked_text(text, f"--{name.replace('_', '-')}")
        with stoppable():
            run(options)
    except Stopped as signal:
        print(f"prepare: stopped by {signal}; nothing half written is left, run it again to go on", file=sys.stderr)
        return RESUMABLE
    except InputError as error:
        print(f"prepare: {line(str(error))}", file=sys.stderr)
        return 2
    except MemoryError:
        print("prepare: needs more memory than there is; expected a smaller input", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"prepare: {error.filename or ''}: {error.strerror or error}; expected a readable input and a "
            "writable output",
            file=sys.stderr,
        )
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    """Each command imports its own room: PyTorch, transformers and SciPy take seconds."""
    if options.command == "default":
        from pictures import default

        default.default(options.out, options.task, say)
    elif options.command == "pretrain-pairs":
        from pictures import pairs

        pairs.write(options.out, options.class_pictures, say)
    elif options.command == "originals":
        from pictures import originals

        originals.prepare(options, say)
    elif options.command == "parts":
        from pictures import parts

        parts.prepare(options, say)
    elif options.command == "rotated":
        from pictures import rotated

        rotated.prepare(options, say)
    elif options.command == "joined":
        from pictures import joined

        joined.prepare(options, say)
    elif options.command == "text":
        from texts import own as own_texts

        say(own_texts.prepare(options))
    elif options.command == "text-tasks":
        from texts import tasks

        tasks.prepare(options, say)
    elif options.command == "language":
        from texts import language, language_t5

        if options.t5:
            language_t5.prepare(options.out, options.packages, say)
        else:
            language.prepare(options.out, options.packages, options.task, options.all, say)
    elif options.command == "decoder":
        from texts import decoder

        decoder.prepare(options.out, options.packages, options.gguf, options.task, say)
    elif options.command == "convert-checkpoints":
        from checkpoints import convert

        convert.prepare(options, say)
    elif options.command == "convert-model":
        from checkpoints import weights

        weights.prepare(options, say)
    else:
        from pictures import own as own_pictures

        say(own_pictures.prepare(options))
