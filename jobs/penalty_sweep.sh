#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# λ of the τJp penalty, for both of its forms, on the default tasks: a run a form and value, then one table; the value to
# take is the one with the highest validation accuracy of the sum at α = 1. Half an hour on two cores; run it again to go
# on. Other values, and the regime: WEIGHTS_SQUARED="0.1 1" WEIGHTS_NORM="1 10" REGIME=tau_jp_strict. RUN, RANKS as in
# paper.sh. Arguments go to taugrid.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
run="${RUN:-runs/penalty_sweep}" regime="${REGIME:-tau_jp}"
folders=()
# sweep FORM OTHERS WEIGHT…: equation 10 of the paper adds up the others' penalties, the authors' code takes their mean.
sweep() {
  local form="$1" others="$2" weight
  shift 2
  for weight in "$@"; do
    folders+=("$run/${regime}_${form}_$weight")
    measure papers/tau_jp/penalty_sweep "${folders[-1]}" --set "finetune.regimes=[\"$regime\"]" --set "finetune.penalty_form=$form" \
      --set "finetune.penalty_others=$others" --set "finetune.penalty_weight=$weight" "${options[@]}"
  done
}
options=("$@")
read -ra squared <<<"${WEIGHTS_SQUARED:-0.01 0.03 0.1 0.3}"
read -ra norm <<<"${WEIGHTS_NORM:-0.1 0.3 1 3}"
sweep squared sum "${squared[@]}"
sweep norm mean "${norm[@]}"
"$venv/bin/python" -m taugrid_analysis seeds "${folders[@]}"
