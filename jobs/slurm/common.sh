# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the batch scripts. The site's values, unless exported, are set here. sbatch runs a copy of a script, so paths
# start at the job's folder: that of submission, or --chdir's. It is the repository's root.
set -uo pipefail
PROGRAM="${PROGRAM:-build/release/suite/taugrid}"
VENV="${VENV:-.venv}"
MPI="${MPI:-pmix}"                      # srun --mpi=list says what this site has
BIND="${BIND---cpu-bind=cores}"         # e.g. "--cpu-bind=cores --gpu-bind=single:1" where ranks must not see all GPUs; "": none
MAX_RESTARTS="${MAX_RESTARTS:-50}"
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

fail() { echo "taugrid job: $*" >&2; exit 2; }

# Before an allocation's hours are spent on it: what would be missing is said within seconds.
preflight() {
  command -v "$PROGRAM" >/dev/null ||
    fail "no program $PROGRAM in $PWD: submit from the repository's root after bash jobs/setup.sh, or set PROGRAM"
  srun --mpi=list 2>&1 | grep -w "$MPI" >/dev/null || fail "this Slurm has no --mpi=$MPI; srun --mpi=list says what it has, set MPI"
  [ $# -ne 0 ] || return 0
  "$VENV/bin/python" -c "import taugrid_analysis" 2>/dev/null ||
    fail "no taugrid_analysis in $VENV, for the tables at the end: bash jobs/setup.sh or pip install -e analysis, or set VENV"
  "$PROGRAM" run "$@" --dry-run >/dev/null || exit 2
}

# launch EXPERIMENT RUN [OPTION…]. cpus-per-task does not reach srun by itself since Slurm 22.05. Ranks stop together, and
# the first to leave (75) must not get the others killed, whatever the site's default; one that dies is PMIx's to see.
launch() {
  local experiment="$1" run="$2"
  shift 2
  local stay=()
  [[ $MPI != pmix* ]] || stay=(--kill-on-bad-exit=0)
  # shellcheck disable=SC2086
  srun --mpi="$MPI" --ntasks="${STEP_RANKS:-$SLURM_NTASKS}" --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \
    ${stay[@]+"${stay[@]}"} $BIND "$PROGRAM" run "$experiment" --run-dir "$run" "$@"
}

# Stopped at a safe point (75): the job goes back into the queue and continues there. REQUEUE=0: it ends with 75, for
# a chain of jobs (jobs/slurm/chain.sh).
again() {
  local code="$1"
  if [ "$code" = 75 ] && [ "${REQUEUE:-1}" = 1 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "$MAX_RESTARTS" ]; then
    echo "taugrid job: stopped early, back into the queue (restart ${SLURM_RESTART_COUNT:-0})"
    local job="$SLURM_JOB_ID"
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || job="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    scontrol requeue "$job"
    sleep 60  # Slurm ends us here
  fi
  [ "$code" = 0 ] || exit "$code"
}
