# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the jobs, from the repository's root: what is missing is set up, the default tasks of pictures are made.
# RANKS=N chooses the number of ranks.
set -euo pipefail
venv="${TAUGRID_VENV:-.venv}"
source jobs/steps.sh
bash jobs/setup.sh --default-tasks

# measure EXPERIMENT FOLDER [OPTION…]: jobs/EXPERIMENT.toml; goes on where it was interrupted.
measure() {
  local experiment="jobs/$1.toml" code=0
  shift
  bash jobs/measure.sh "$experiment" "$@" || code=$?
  if [ "$code" = 75 ]; then echo "Stopped early; run the same command again to go on." >&2; fi
  if [ "$code" -gt 128 ]; then  # mpirun -q ended all ranks, perhaps before one could say who died
    echo "A rank was ended by signal $((code - 128)) (9: killed, by hand or for memory); run the same command again to go on." >&2
  fi
  [ "$code" = 0 ] || exit "$code"
}
