#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Many runs of one experiment and one report: an array of jobs over every combination of values, and a job that waits for
# all of them and prints the runs side by side. From the repository's root:
#   bash jobs/slurm/campaign.sh EXPERIMENT.toml RUNS "run.seed 0 1 2" "model.path models/a models/b" [-- SBATCH OPTION…]
# Each quoted word is a key of the experiment file and its values; numbers and words stand as they are, lists as in
# TOML without white space: 'finetune.regimes ["standard"] ["standard","linear"]'. RUNS gets a folder a combination,
# numbered, campaign.txt says which is which, and report.txt is written at the end. The same command goes on with what
# is missing. What follows -- goes to sbatch for each run: --ntasks=16 --time=2:00:00; account, partition, QOS and
# reservation among it go to the report, too.
source "$(dirname "${BASH_SOURCE[0]}")/submit.sh"
[ $# -ge 3 ] || say_and_end 'usage: bash jobs/slurm/campaign.sh EXPERIMENT.toml RUNS "KEY VALUE…" … [-- SBATCH OPTION…]'
experiment="$1" runs="$2"
shift 2
[ -f "$experiment" ] || say_and_end "there is no experiment '$experiment'"
[ -f jobs/slurm/common.sh ] || say_and_end "start it in the repository's root"
lines=("")  # a line is the options of one run, KEY=VALUE with tabs between
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  read -ra words <<<"$1"
  [[ ${#words[@]} -ge 2 && ${words[0]} =~ ^[a-z_]+(\.[a-z_]+)+$ ]] || say_and_end "'$1': expected a key and its values, as in \"run.seed 0 1 2\""
  longer=()
  for line in "${lines[@]}"; do
    for value in "${words[@]:1}"; do longer+=("$line${line:+$'\t'}${words[0]}=$value"); done
  done
  lines=("${longer[@]}")
  shift
done
[ "${1:-}" != -- ] || shift
[ ${#lines[@]} -le 1000 ] || say_and_end "${#lines[@]} runs; expected at most 1000"
mkdir -p "$runs"
table="$runs/campaign.txt"
printf '%s\n' "${lines[@]}" >"$table.part"
if [ -e "$table" ] && ! cmp -s "$table" "$table.part"; then
  rm "$table.part"
  say_and_end "$table is of other values: choose another folder, or remove it"
fi
mv "$table.part" "$table"
keep_where "$@"
CAMPAIGN="$table" submit --array="0-$((${#lines[@]} - 1))" --output="$runs/run-%a.out" "$@" \
  jobs/slurm/finetune-and-measure.sbatch "$experiment" "$runs"
array=$job
submit --dependency="afterany:$array" --output="$runs/report.out" ${where[@]+"${where[@]}"} \
  jobs/slurm/campaign-report.sbatch "$runs"
echo "$array $job"
echo "campaign: ${#lines[@]} runs are job $array; their report, $runs/report.txt, is job $job" >&2
