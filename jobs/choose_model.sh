#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Which pre-training gives the default model: pre-trains three candidates and takes the one whose sum of task vectors
# recovers most of standard fine-tuning's gain on validation points; test points have no part in it. Needs the packages
# of jobs/packages/debian-pretrain.txt. Half an hour on two quiet cores; run it again to go on. RUN=FOLDER chooses
# another folder, CANDIDATES="PICTURES STEPS, …" others.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
run="$(realpath -m "${RUN:-runs/choose_model}")"
"$venv/bin/python" jobs/prepare pretrain-pairs
IFS=, read -ra candidates <<<"${CANDIDATES:-100 2500,50 3500,50 6000}"
folders=()
for candidate in "${candidates[@]}"; do
  read -r pictures steps <<<"$candidate"
  made="$run/pretrain_${pictures}_$steps"
  RANKS=1 measure experiments/pretrain_mini "$made" --set "pretrain.class_pictures=$pictures" --set "pretrain.steps=$steps"
  folders+=("$run/${pictures}_$steps")
  measure experiments/quickstart "${folders[-1]}" --set "model.path=$made/checkpoints/pretrained" \
    --set 'finetune.regimes=["standard"]' "$@"
done
"$venv/bin/python" -m taugrid_analysis seeds "${folders[@]}"
