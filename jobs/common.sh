# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the jobs, from the repository's root: what is missing is set up, the default tasks are made, those of
# pictures or, with default=language, of texts. RANKS=N chooses the number of ranks.
set -euo pipefail
venv="${TAUGRID_VENV:-.venv}"
if [ "${default:-data}" = language ]; then
  bash jobs/setup.sh --language
  "$venv/bin/python" jobs/prepare language --out data/language
else
  bash jobs/setup.sh --data
  "$venv/bin/python" jobs/prepare default --out data
fi
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

# measure EXPERIMENT FOLDER [OPTION…]: jobs/experiments/EXPERIMENT.toml; goes on where it was interrupted.
measure() {
  local experiment="jobs/experiments/$1.toml" folder="$2" code=0
  shift 2
  local launcher=(mpirun -q -n "${RANKS:-2}" --bind-to none)
  [ "${RANKS:-2}" -le "$(nproc)" ] || launcher+=(--oversubscribe)
  "${launcher[@]}" build/release/suite/taugrid run "$experiment" --run-dir "$folder" "$@" || code=$?
  if [ "$code" = 75 ]; then echo "Stopped early; run the same command again to go on." >&2; fi
  if [ "$code" -gt 128 ]; then  # mpirun -q ended all ranks, perhaps before one could say who died
    echo "A rank was ended by signal $((code - 128)) (9: killed, by hand or for memory); run the same command again to go on." >&2
  fi
  [ "$code" = 0 ] || exit "$code"
}
