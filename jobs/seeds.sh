#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What docs/findings found in seed 0, which chose the default model, again with SEEDS="1 2", which chose nothing: the
# quickstart, each paper's default runs but cross-task linearity's, every merging method, λ of the penalty. Ends with means
# over these seeds. Four hours on two quiet cores, a night on busy ones; run it again to go on. ONLY="tau_jp bases" takes
# these parts alone, of: tau_jp, attention_only, tangent_space, bases, merging, penalty, causes; causes alone does without the
# quickstart. RANKS as in paper.sh.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
read -ra seeds <<<"${SEEDS:-1 2}"
read -ra only <<<"${ONLY:-tau_jp attention_only tangent_space bases merging penalty}"

for seed in "${seeds[@]}"; do
  [ "${only[*]}" = causes ] || measure experiments/quickstart "runs/quickstart_seed$seed" --set "run.seed=$seed"
  for part in "${only[@]}"; do
    case "$part" in
      tau_jp | attention_only | tangent_space | bases) SEED="$seed" bash jobs/paper.sh "$part" ;;
      merging)
        measure experiments/merging_variants "runs/merging_variants_seed$seed" --set "run.seed=$seed" \
          --set "finetune.checkpoints=$PWD/runs/quickstart_seed$seed/checkpoints" --set 'finetune.given=["standard", "linear"]' ;;
      penalty) RUN="runs/penalty_sweep_seed$seed" bash jobs/penalty_sweep.sh --set "run.seed=$seed" ;;
      causes) SEED="$seed" RUN="$PWD/runs/causes_seed$seed" bash jobs/causes.sh ;;
      *) echo "jobs/seeds.sh: ONLY names $part; expected tau_jp, attention_only, tangent_space, bases, merging, penalty or causes" >&2
         exit 2 ;;
    esac
  done
done

# means FOLDER TABLE…: of the runs FOLDER_seedN; what lies behind N of a further run's name stands in the second word.
means() {
  local folder="$1" further="$2" table runs=() words=()
  shift 2
  for seed in "${seeds[@]}"; do runs+=("${folder}_seed$seed$further"); done
  for table in "$@"; do words+=(--table "$table"); done
  echo "== $folder$further, seeds ${seeds[*]}"
  "$venv/bin/python" -m taugrid_analysis seeds "${runs[@]}" "${words[@]}"
}
if [ "${#seeds[@]}" -lt 2 ]; then exit 0; fi # one seed has no mean
[ "${only[*]}" = causes ] || means runs/quickstart "" addition differences disentanglement
for part in "${only[@]}"; do
  case "$part" in
    tau_jp) means runs/papers/tau_jp "" addition differences negation penalty tau_jp
            means runs/papers/tau_jp _figure3 continuation pair_addition ;;
    attention_only) means runs/papers/attention_only "" addition differences ;;
    tangent_space) for further in "" _random _convnext _closed; do means runs/papers/tangent_space "$further" addition; done ;;
    bases) means runs/papers/bases "" merging bases every_partition mixed_starts ;;
    merging) means runs/merging_variants "" merging choices subsets masks ;;
    penalty)
      for form in "runs/penalty_sweep_seed${seeds[0]}"/*/; do  # a form and its λ each
        means runs/penalty_sweep "/$(basename "$form")" penalty
      done ;;
    causes)
      runs=()
      for seed in "${seeds[@]}"; do
        mapfile -t -O "${#runs[@]}" runs < <(ls -dv "runs/causes_seed$seed"/{epochs-*,steps,replaced,separate,barrier-*})
      done
      echo "== runs/causes, seeds ${seeds[*]}"
      "$venv/bin/python" -m taugrid_analysis causes "${runs[@]}" ;;
  esac
done
