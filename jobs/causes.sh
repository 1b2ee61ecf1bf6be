#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What makes cross-task linearity (Zhou et al., 2024, section 5 and appendix C.2): epochs of pre-training, steps of
# fine-tuning, replaced pictures, separate pre-training; and the loss barrier over all θ0s. Small networks on parts of
# Fashion-MNIST. A setting has three pairs of models, which differ by the orders of their training points; no model is in two.
# Ends with three tables, and figures 11 and 12. Run it again to go on after an interruption.
# MODEL=resnet8 or resnet20 take other networks than a multilayer perceptron, EPOCHS="$(seq -s " " 20)" the paper's grid (it has
# ResNet-18 and CIFAR-100); USUAL=N, one of these, is that of pre-training where it does not vary. SEED=N is another seed.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
read -ra epochs <<<"${EPOCHS:-1 2 5 10 20}"
model="$PWD/models/${MODEL:-mlp}" run="${RUN:-$PWD/runs/causes}" usual="${USUAL:-10}" seed="${SEED:-0}"
times=3 # that each task is fine-tuned in a setting, as causes.toml has it
epoch=16 # steps of pre-training, of a thousand pictures; of fine-tuning 12, of 750
shares=(25 50 75 100)
"$venv/bin/python" jobs/prepare parts data/fashion.h5 --classes 4 3 3 --pictures 250 --replaced "${shares[@]}" --replace --out data/causes

# list WORD…: ["WORD", …] in TOML; steps N: [N times each number of epochs].
list() { printf '[%s]' "$(printf '"%s", ' "$@" | sed 's/, $//')"; }
steps() { printf '[%s]' "$(for n in "${epochs[@]}"; do printf '%d, ' $((n * $1)); done | sed 's/, $//')"; }

# of_times FIRST SECOND: the pairs of two tasks of one number of steps, each model in one of them.
of_times() { for k in $(seq "$times"); do echo "$1-$k+$2-$k"; done; }

# pretrain FOLDER SEED: θ0s from one random start, in FOLDER/epochs-N.
pretrain() {
  measure papers/cross_task_linearity/causes_start "$1" --set "model.path=$model" --set "run.seed=$2" --set "variants.steps=$(steps $epoch)"
  for k in "${!epochs[@]}"; do ln -sfn "checkpoints/standard/start-$((k + 1))" "$1/epochs-${epochs[k]}"; done
}
# from N EXPERIMENT FOLDER [OPTION…]: an experiment from the θ0 of N epochs; 0: from a random one.
from() {
  local n="$1" experiment="$2" folder="$3"
  shift 3
  if [ "$n" = 0 ]; then
    measure "papers/cross_task_linearity/$experiment" "$folder" --set "model.path=$model" --set "run.seed=$seed" "$@"
  else
    measure "papers/cross_task_linearity/$experiment" "$folder" --set "model.path=$run/start/epochs-$n" --set model.init=pretrained --set "run.seed=$seed" "$@"
  fi
}

pretrain "$run/start" "$seed"
linear=() barriers=()
for n in 0 "${epochs[@]}"; do
  from "$n" causes "$run/epochs-$n"
  from "$n" causes_barrier "$run/barrier-$n"
  linear+=("$run/epochs-$n") barriers+=("$run/barrier-$n")
done

pairs=() # of equal steps: variants of one number of steps follow each other
for k in $(seq $((${#epochs[@]} * times))); do pairs+=("d1-$k+d2-$k"); done
from $usual causes "$run/steps" --set "variants.steps=$(steps 12)" --set "data.pairs=$(list "${pairs[@]}")"

tasks=(d1 d2)
mapfile -t pairs < <(of_times d1 d2)
for share in "${shares[@]}"; do
  tasks+=("d1-start-$share" "d2-start-$share" "d2-d1-$share")
  mapfile -t -O "${#pairs[@]}" pairs < <(of_times "d1-start-$share" "d2-start-$share" && of_times d1 "d2-d1-$share")
done
from $usual causes "$run/replaced" --set "data.tasks=$(list "${tasks[@]}")" --set "data.pairs=$(list "${pairs[@]}")"

# Separate pre-training: d1's model is of the usual θ0, d2's of another seed's, which the header does not say here.
pretrain "$run/other_start" $((seed + 1))
measure papers/cross_task_linearity/causes "$run/other" --set "model.path=$run/other_start/epochs-$usual" --set model.init=pretrained --set "run.seed=$seed"
"$venv/bin/python" - "$run" "$usual" "$times" <<'EOF'
import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

run, usual, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for task, source in (("d1", f"epochs-{usual}"), ("d2", "other")):
    for name in (f"{task}-{k + 1}" for k in range(times)):
        folder = run / "mixed" / "standard" / name
        folder.mkdir(parents=True, exist_ok=True)
        own = run / source / "checkpoints" / "standard" / name
        shutil.copy(own / "config.json", folder)
        if not (folder / "model.safetensors").exists():
            part = folder / "model.safetensors.part"
            save_file(load_file(own / "model.safetensors"), part)
            shutil.copymode(own / "model.safetensors", part)
            part.replace(folder / "model.safetensors")
EOF
from $usual causes "$run/separate" --set 'finetune.given=["standard"]' --set "finetune.checkpoints=$run/mixed"

every=("${linear[@]}" "$run/steps" "$run/replaced" "$run/separate")
"$venv/bin/python" -m taugrid_analysis causes "${every[@]}" "${barriers[@]}"
"$venv/bin/python" -m taugrid_analysis figures "${every[@]}" --paper cross_task_linearity --out "$run/figures" |
  grep -E '^figure 1[12]:.*png'
echo "of ${model##*/}, 250 pictures a class, pre-trained for 0 ${epochs[*]} epochs; the paper has ResNet-18, CIFAR-100 and 0 to 20"
