#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Three jobs that wait for each other: models are fine-tuned, then measured, then tables are made. From the repository's
# root:
#   bash jobs/slurm/pipeline.sh FINETUNE.toml MEASURE.toml RUNS "REGIME…" [-- SBATCH OPTION…]
# FINETUNE.toml trains; MEASURE.toml is of the same model, tasks and seed (it may say extends = "FINETUNE.toml") and takes
# these regimes as given. RUNS gets finetune, measure and tables.txt. What follows -- goes to sbatch for the first two;
# account, partition, QOS and reservation among it go to the third, too. FINETUNE_WITH="--gpus-per-node=4",
# MEASURE_WITH="--ntasks=64" and TABLES_WITH="--partition=cpu", words for sbatch, are for one of the three. A job that was
# stopped early goes on before the next begins; where one fails, those behind it are cancelled. The report of
# measure is made with the tables. Where sbatch refuses a job, those before it are cancelled.
source "$(dirname "${BASH_SOURCE[0]}")/submit.sh"
[[ $# -eq 4 || ( $# -gt 4 && $5 = -- ) ]] ||
  say_and_end 'usage: bash jobs/slurm/pipeline.sh FINETUNE.toml MEASURE.toml RUNS "REGIME…" [-- SBATCH OPTION…]'
for experiment in "$1" "$2"; do [ -f "$experiment" ] || say_and_end "there is no experiment '$experiment'"; done
[ -f jobs/slurm/common.sh ] || say_and_end "start it in the repository's root"
finetune="$1" measure="$2" runs="$3" given=""
read -ra regimes <<<"$4"
for regime in ${regimes[@]+"${regimes[@]}"}; do
  [[ $regime =~ ^[a-z_+]+$ ]] || say_and_end "'$4': expected names of regimes, as in \"standard linear\""
  given+="${given:+, }\"$regime\""
done
[ -n "$given" ] || say_and_end "no regimes: expected their names, as in \"standard linear\""
shift $(($# < 5 ? 4 : 5))
mkdir -p "$runs"
runs=$(cd "$runs" && pwd)
read -ra finetune_with <<<"${FINETUNE_WITH:-}"
read -ra measure_with <<<"${MEASURE_WITH:-}"
read -ra tables_with <<<"${TABLES_WITH:-}"
keep_where "$@"
script=jobs/slurm/finetune-and-measure.sbatch
export REPORT=0  # one that fails must not stop what comes behind
submit --job-name=taugrid-finetune --output="$runs/finetune.out" "$@" ${finetune_with[@]+"${finetune_with[@]}"} \
  $script "$finetune" "$runs/finetune"
first=$job
submit --job-name=taugrid-measure --output="$runs/measure.out" "$@" ${measure_with[@]+"${measure_with[@]}"} \
  --dependency="afterok:$first" --kill-on-invalid-dep=yes $script \
  "$measure" "$runs/measure" --set "finetune.checkpoints=$runs/finetune/checkpoints" --set "finetune.given=[$given]"
second=$job
submit --output="$runs/tables.out" ${where[@]+"${where[@]}"} ${tables_with[@]+"${tables_with[@]}"} \
  --dependency="afterok:$second" --kill-on-invalid-dep=yes jobs/slurm/tables.sbatch "$runs/measure" "$runs/tables.txt"
echo "$first $second $job"
echo "pipeline: fine-tuning is job $first, measuring $second, $runs/tables.txt $job" >&2
