"""The command line of taugrid's data preparation."""

import argparse
import sys
from pathlib import Path

from errors import InputError

DESCRIPTION = """\
Make packed HDF5 data sets for taugrid: one file a task, with train, validation and test splits, a frozen
zero-shot head and the class names.

  python jobs/prepare default --out data                    the eight default image tasks and the control task
  python jobs/prepare folder photos --task birds --out data your own pictures, a folder a class
  python jobs/prepare idx my-mnist --task digits --out data  MNIST-style IDX files
  python jobs/prepare arrays set.npz --task mine --out data  numpy arrays
"""


def say(line: str) -> None:
    print(line, flush=True)


def number_of_pixels(text: str) -> int:
    value = int(text)
    if not 8 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{value}; expected 8 to 1024")
    return value


def add_own(commands, name: str, summary: str, where: str, details: str) -> argparse.ArgumentParser:  # type: ignore[no-untyped-def]
    own = commands.add_parser(
        name, help=summary, description=summary + "\n\n" + details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own.add_argument("input", type=Path, help=where)
    own.add_argument("--task", help="name of the task and of its file; without it the input's name")
    own.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    own.add_argument("--image-size", type=number_of_pixels, default=32, metavar="N", help="side of the square (32)")
    own.add_argument("--class-names", metavar="A,B,…", help="names in the order of the labels, or a file, one a line")
    own.add_argument(
        "--template",
        action="append",
        metavar="TEXT",
        help='sentence for the zero-shot head with {} for the class, repeatable ("a picture of {}", "{}")',
    )
    own.add_argument("--head", type=Path, metavar="FILE.npy", help="your own head [classes, features] instead")
    own.add_argument("--logit-scale", type=float, default=100.0, metavar="S", help="logits = S · cosine (100)")
    own.add_argument("--mean", type=float, nargs="+", metavar="M", help="per channel, inputs in 0…1 (0.5)")
    own.add_argument("--std", type=float, nargs="+", metavar="S", help="per channel, inputs in 0…1 (0.5)")
    own.add_argument("--source", default="", help="where the data came from, kept in the file")
    own.add_argument("--license", default="not stated", help="licence of the data, kept in the file")
    own.add_argument("--seed", type=int, default=0, metavar="N", help="of the splits that the input lacks (0)")
    return own


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python jobs/prepare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    default = commands.add_parser(
        "default",
        help="the default image tasks, from installed packages",
        description="Build the default tasks that jobs/tasks/*.toml declare, from the packages that "
        "jobs/packages/debian-data.txt and python-data.txt list. A task whose file is up to date is left alone.",
    )
    default.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    default.add_argument("--task", action="append", default=[], metavar="NAME", help="only this task, repeatable")

    pairs = commands.add_parser(
        "pretrain-pairs",
        help="captioned pictures for pre-training the default model",
        description="Collect pictures with captions for pre-training a CLIP in miniature. Nothing in it shares a "
        "split key with a validation or test split, and near-duplicates of those are dropped. Needs the packages of "
        "jobs/packages/debian-pretrain.txt too. Only for those who repeat the pre-training.",
    )
    pairs.add_argument(
        "--out", type=Path, default=Path("data/pretrain/pairs.h5"), metavar="FILE.h5", help="file to write"
    )
    pairs.add_argument(
        "--class-pictures",
        type=int,
        default=400,
        metavar="K",
        help="training pictures a task that carry their class as caption (400; "
        "class_picture_rank lets the trainer take fewer)",
    )

    add_own(
        commands,
        "folder",
        "a folder of pictures, a subfolder a class",
        "DIR",
        "DIR/{train,val,test}/CLASS/*.png|jpg|…; without val, or without the three folders (DIR/CLASS/*),\n"
        "the missing splits are drawn: a fifth for test, then min(10 %, 5000) for validation.\n"
        "Class names are the folders' names, '_' read as a space.",
    )
    add_own(
        commands,
        "idx",
        "MNIST-style IDX files, plain or .gz",
        "DIR",
        "DIR holds {train,t10k|test}-images-idx3-ubyte and -labels-idx1-ubyte, with or without .gz.",
    )
    add_own(
        commands,
        "arrays",
        "numpy arrays",
        "FILE.npz, or DIR with .npy files",
        "Names: images and labels, or train_images, train_labels, test_images, test_labels and, if there,\n"
        "validation_images, validation_labels. Images are uint8 [n,h,w] or [n,h,w,c] with c 1, 3 or 4.",
    )
    return top


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        if options.command == "default":
            import build

            build.default(options.out, options.task, say)
        elif options.command == "pretrain-pairs":
            import pairs

            pairs.write(options.out, options.class_pictures, say)
        else:
            import own

            say(own.prepare(options))
    except InputError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"prepare: {error.filename or ''}: {error.strerror or error}; expected a readable input and a "
            "writable output",
            file=sys.stderr,
        )
        return 2
    return 0
