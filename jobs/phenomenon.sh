#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Shows that the default model has what the papers describe, over SEEDS="0 1 2": the default run from the pre-trained and
# from a random start, then means, deviations and the criteria; and what predicts interference, by all predictors in each
# seed. Half an hour on two quiet cores; run it again to go on. GRID=1 ends with the causes of cross-task linearity on the
# paper's grid, every number of epochs from 0 to 20, of a ResNet-20: hours more.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
read -ra seeds <<<"${SEEDS:-0 1 2}"
run=runs/phenomenon starts=() predictors=()
for seed in "${seeds[@]}"; do
  measure experiments/quickstart "$run/seed$seed" --set "run.seed=$seed"
  measure experiments/quickstart "$run/random$seed" --set "run.seed=$seed" --set model.init=random
  measure experiments/interference "$run/interference$seed" --set "run.seed=$seed"
  starts+=("$run/seed$seed" "$run/random$seed")
  predictors+=("$run/interference$seed")
done
"$venv/bin/python" -m taugrid_analysis seeds "${starts[@]}"
"$venv/bin/python" -m taugrid_analysis seeds "${predictors[@]}"
if [ "${GRID:-}" = 1 ]; then
  MODEL=resnet20 EPOCHS="$(seq -s " " 20)" RUN="$PWD/$run/causes" bash jobs/causes.sh
fi
