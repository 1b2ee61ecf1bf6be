#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What one paper measures, on the default tasks: bash jobs/paper.sh tangent_space, tau_jp, attention_only, bases or
# cross_task_linearity. Ends by printing each of its tables, published numbers beside ours, and where its figures are. Five
# to twenty minutes on two cores. Run it again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder
# and number of ranks. bases takes its models from the quickstart's run where that is finished (QUICKSTART=FOLDER names
# another, QUICKSTART= none), so that it trains those alone which that run has not kept, of clusters and of the second
# checkpoint; it prints the run's own tables too, of merging and of every number of clusters, and makes a report.
# And the default language tasks, of no paper's own: bash jobs/paper.sh language, likewise.
paper="${1:-}"
case "$paper" in
  tangent_space | tau_jp | attention_only | cross_task_linearity | bases | language) ;;
  *)
    echo "$0: which paper? tangent_space, tau_jp, attention_only, cross_task_linearity or bases; or language" >&2
    exit 2
    ;;
esac
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
default="$([ "$paper" != language ] || echo language)"
source jobs/common.sh
run="${RUN:-runs/papers/$paper}"

# figures_of RUN PAPER: those that this run alone can give; what others need is not said.
figures_of() { "$venv/bin/python" -m taugrid_analysis figures "$1" --paper "$2" | sed /needs/d; }

given=()
if [ "$paper" = bases ]; then
  quickstart="${QUICKSTART-runs/quickstart}" checkpoints=""
  if [ -e "$run/config.toml" ]; then  # it goes on with the models that it began with
    checkpoints="$(sed -n 's/^checkpoints = "\(.*\)"$/\1/p' "$run/config.toml")"
  elif [ -e "$quickstart/results.h5" ]; then
    checkpoints="$(realpath "$quickstart/checkpoints")"
  fi
  if [ -n "$checkpoints" ]; then
    given=(--set "finetune.checkpoints=$checkpoints" --set 'finetune.given=["standard", "linear"]')
  fi
fi
measure "$paper" "$run" "${given[@]}" "$@"
if [ "$paper" = language ] || [ "$paper" = bases ]; then
  "$venv/bin/python" -m taugrid_analysis tables "$run"
  "$venv/bin/python" -m taugrid_analysis report "$run"
fi
if [ "$paper" = language ]; then
  # Of the bases paper tables 8, 15 and 16 of texts, and figures 7 and 8.
  for table in table8 table15 table16; do
    "$venv/bin/python" -m taugrid_analysis tables "$run" --paper bases --only "$table"
  done
  figures_of "$run" bases
  # How much of a cosine the words of the heads make.
  measure language_words "${run}_words"
  "$venv/bin/python" -m taugrid_analysis tables "${run}_words" --only pairs
  exit
fi
every="$(realpath -m "$run")"  # of runs that begin with models of others
"$venv/bin/python" -m taugrid_analysis tables "$run" --paper "$paper"
"$venv/bin/python" -m taugrid_analysis figures "$run" --paper "$paper"
if [ "$paper" = tangent_space ]; then  # what it shows of a random start: table 3, figures 11 and 16
  measure tangent_space_random "${run}_random"
  "$venv/bin/python" -m taugrid_analysis tables "${run}_random" --paper "$paper" --only table3
  figures_of "${run}_random" "$paper"
  # Table 4 and figure 12: a ConvNeXt, pre-trained on a few pictures of every class, by the texts that name them.
  "$venv/bin/python" jobs/prepare joined data/{mnist5k,letters,icon_context,emoji,clipart,fashion,animals,scripts,textures}.h5 \
    --pictures 50 --task named --out data/joined
  RANKS=1 measure tangent_space_convnext_start "${every}_convnext_start"
  measure tangent_space_convnext "${every}_convnext" \
    --set "model.path=${every}_convnext_start/checkpoints/standard/named"
  # Table 5 and figure 13: a Vision Transformer, pre-trained with labels of other tasks, and a classifier a task.
  "$venv/bin/python" jobs/prepare joined data/{fashion,animals,scripts,textures}.h5 --classifier \
    --task labelled --out data/joined
  RANKS=1 measure tangent_space_closed_start "${every}_closed_start"
  measure tangent_space_closed "${every}_closed" --set "model.path=${every}_closed_start/checkpoints/standard/labelled"
  "$venv/bin/python" -m taugrid_analysis tables "${every}_convnext" --paper "$paper" --only table4
  "$venv/bin/python" -m taugrid_analysis tables "${every}_closed" --paper "$paper" --only table5
  for part in convnext closed; do
    figures_of "${every}_$part" "$paper"
  done
  echo "Sizes, the paper's in brackets. Table 4: five default tasks (eight), θ0 of 50 pictures of each of 115 classes, theirs"
  echo "among them (CLIP, LAION-400M). Table 5: the same five tasks, θ0 of labels of four others, 65 classes (ImageNet-1k); heads"
  echo "are trained on θ0's features, then frozen (along with each task's model)."
fi
if [ "$paper" = cross_task_linearity ]; then
  # Figures 4 to 6, 17 and 18: fine-tunings of one task.
  measure cross_task_linearity_soups "${every}_soups"
  "$venv/bin/python" -m taugrid_analysis tables "${every}_soups" --only variants
  "$venv/bin/python" -m taugrid_analysis tables "${every}_soups" --only averages
  # Figures 13 and 14: multilayer perceptrons on rotated digits, pre-trained on upright ones.
  "$venv/bin/python" jobs/prepare rotated data/mnist5k.h5 --angles 0 22.5 45 67.5 90 --out data/rotated
  "$venv/bin/python" jobs/prepare rotated data/fashion.h5 --angles 0 --out data/rotated
  measure rotated_start "${every}_rotated_start"
  measure rotated "${every}_rotated" --set "model.path=${every}_rotated_start/checkpoints/standard/mnist5k-0"
  # Figures 15 and 16: ResNet-20 on splits of Fashion-MNIST, pre-trained on the first one; and theorem 5.1 over five θ0s.
  "$venv/bin/python" jobs/prepare parts data/fashion.h5 --classes 2 2 2 2 2 --out data/split
  measure split_start "${every}_split_start"
  measure split "${every}_split" --set "model.path=${every}_split_start/checkpoints/standard/start-4"
  measure fashion_barrier "${every}_barrier_0"
  barriers=("${every}_barrier_0")
  for k in 1 2 3 4; do
    measure fashion_barrier "${every}_barrier_$k" --set model.init=pretrained \
      --set "model.path=${every}_split_start/checkpoints/standard/start-$k"
    barriers+=("${every}_barrier_$k")
  done
  # Figures 21 and 24: a small T5 on six tasks of texts, pre-trained on four others.
  bash jobs/setup.sh --language
  "$venv/bin/python" jobs/prepare language --t5 --out data/t5_mini
  measure t5_start "${every}_t5_start"
  measure t5 "${every}_t5" --set "model.path=${every}_t5_start/checkpoints/standard/start"
  for part in rotated split t5; do
    "$venv/bin/python" -m taugrid_analysis tables "${every}_$part" --paper "$paper"
  done
  "$venv/bin/python" -m taugrid_analysis causes "${barriers[@]}"
  for part in soups rotated split t5; do
    figures_of "${every}_$part" "$paper"
  done
  # Figures 11 and 12: what makes it.
  RUN="${every}_causes" bash jobs/causes.sh
  echo "Sizes, the paper's in brackets. Default tasks: 28 pairs, 128 points a task in layers (5,000), 64 in stitching (2,000)."
  echo "One task's models: 8, all 56 triples (20 models, 1,140). Digits: 3,600 in 17 epochs (60,000 in one), 1,000 test points"
  echo "(10,000). Splits: five of two classes, 500 pictures, ResNet-20 (20 of five, 2,500, ResNet-18). T5: six tasks that name a"
  echo "class, 24 tokens, 0.5 million parameters pre-trained on 3,500 texts (T5-base; IMDB, RACE, …). Theorem 5.1: 50 pairs of"
  echo "30 steps from five θ0, Fashion-MNIST (CIFAR-10; the paper states neither steps nor θ0s)."
fi
if [ "$paper" = bases ]; then
  echo "Sizes, the paper's in brackets. Eight default tasks, 256 points each (whole test splits); T4, T6, T7, T10, T13, T14 and"
  echo "pairs of methods of T5, T11, T12: four of them, all 15 partitions, two outside. α by validation: 4 values for bases,"
  echo "mean's 1 alone between clusters, 6 subtracted (20 and 21). Joint models: as many steps as their tasks' together, batches of 16,"
  echo "theirs alone of 64 (the paper's is unsaid). Steps kept: 1, 2 and 10 of 150, of fashion less than an epoch (epochs 0 and 1)."
  echo "Random partitions: 20 of every k from 2 to 7 (none). Language tables: jobs/paper.sh language."
fi
if [ "$paper" = tau_jp ]; then  # figure 3, of the pairs that interfere most and least
  measure tau_jp_figure3 "${run}_figure3"
  figures_of "${run}_figure3" "$paper"
fi
