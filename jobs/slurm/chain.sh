#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Where a site forbids requeueing: N jobs, each of which starts when the one before was stopped early, or failed.
#   bash jobs/slurm/chain.sh 5 jobs/slurm/finetune-and-measure.sbatch EXPERIMENT.toml RUN [OPTION…]
# A job whose predecessor finished everything is cancelled by Slurm (its dependency can never be met).
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: bash jobs/slurm/chain.sh N SCRIPT [ARGUMENT…]" >&2; exit 2; }
count="$1"
shift
export REQUEUE=0
job=$(sbatch --parsable "$@")
job="${job%%;*}"  # in a federation the cluster's name stands behind it
echo "$job"
before="$job"
for ((i = 1; i < count; ++i)); do
  # None of them may have finished: one that was cancelled, as the one before it finished, counts as failed.
  job=$(sbatch --parsable --dependency="afternotok:$before" --kill-on-invalid-dep=yes "$@")
  job="${job%%;*}"
  echo "$job"
  before+=":$job"
done
