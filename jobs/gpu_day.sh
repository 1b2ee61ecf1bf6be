#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# All that is to be learned on a machine with a GPU that is at hand for minutes, without a network: what it is, the tests
# on the device, every case of the bench on device and host, PyTorch's twins on the same GPU, the quickstart's numbers
# beside a recorded run's, and a model of the papers' size. All of it stays in one folder, with a page summary.md first.
#   bash jobs/gpu_day.sh --bundle ARCHIVE [--torch PYTHON] [--data ARCHIVE] [--out FOLDER] [--minutes 8] [--only STEPS]
# ARCHIVE is jobs/bundle.sh's. --data is an archive of the default tasks (tar -C data -cJf … .); without it the quickstart is
# left out. --only "machine bench" does these steps alone. A step that fails or runs out of time does not stop the others.
# Paths are relative to the repository's root.
# --device rehearsal goes through all of it on the host, small, with the library that TAUGRID_REHEARSAL names.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bundle="" python=python3 data="" out=gpu_day minutes=8 device=cuda only=""
while [ $# -gt 0 ]; do
  case "$1" in
    --bundle | --torch | --data | --out | --minutes | --device | --only)
      [ $# -ge 2 ] || { echo "gpu_day: $1 needs a value" >&2; exit 2; }
      case "$1" in
        --bundle) bundle="$2" ;; --torch) python="$2" ;; --data) data="$2" ;; --out) out="$2" ;;
        --minutes) minutes="$2" ;; --device) device="$2" ;; --only) only="$2" ;;
      esac
      shift 2 ;;
    *) echo "gpu_day: unknown argument $1; see the first lines of jobs/gpu_day.sh" >&2; exit 2 ;;
  esac
done
[[ "$minutes" =~ ^[0-9]+$ ]] || { echo "gpu_day: --minutes $minutes; expected a number" >&2; exit 2; }
for file in "$bundle" ${data:+"$data"}; do
  [ -f "$file" ] || { echo "gpu_day: '$file' is no file; expected --bundle ARCHIVE, of jobs/bundle.sh" >&2; exit 2; }
done
end=$((SECONDS + 60 * minutes))
mkdir -p "$out"
out="$(cd "$out" && pwd)"
work="$(mktemp -d)"
trap 'kill "${sampler:-}" 2>/dev/null; rm -rf "$work"' EXIT
tar -xf "$bundle" -C "$work" || { echo "gpu_day: $bundle cannot be unpacked" >&2; exit 2; }
program="$work/taugrid/taugrid.sh" launcher="$work/taugrid/mpirun.sh"
export TAUGRID_TORCH_PYTHON="$(command -v "$python" || echo "$python")" PYTHONPATH="$PWD/analysis" PYTHONUNBUFFERED=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HF_HUB_OFFLINE=1
ranks="${RANKS:-4}"
if [ "$device" = rehearsal ]; then
  [ -f "${TAUGRID_REHEARSAL:-}" ] || { echo "gpu_day: TAUGRID_REHEARSAL names no library" >&2; exit 2; }
  program="$work/rehearsal.sh"
  cat >"$program" <<END
#!/usr/bin/env bash
bundle="$work/taugrid"
source "\$bundle/share/environment.sh"
LD_PRELOAD="$TAUGRID_REHEARSAL" exec "\$bundle"/bin/x86-64/taugrid "\$@"
END
  chmod +x "$program"
fi
printf 'step\tseconds\tstatus\n' >"$out/steps.tsv"

# step NAME SECONDS FUNCTION [ARGUMENT…]: what it prints goes to NAME.txt.
step() {
  local name="$1" limit="$2" left=$((end - SECONDS)) begin=$SECONDS code=0
  shift 2
  if [ -n "$only" ] && [[ " $only " != *" $name "* ]]; then return; fi
  if [ "$left" -lt 10 ]; then printf '%s\t0\tno time was left\n' "$name" >>"$out/steps.tsv"; return; fi
  [ "$limit" -le "$left" ] || limit="$left"
  date +%s.%N >"$out/$name.began"
  timeout --kill-after 5 "$limit" bash -c '"$@"' "$name" "$@" >"$out/$name.txt" 2>&1 || code=$?
  local status="failed ($code)"
  case "$code" in 0) status=done ;; 124 | 137) status="stopped after $limit s" ;; esac
  printf '%s\t%s\t%s\n' "$name" "$((SECONDS - begin))" "$status" >>"$out/steps.tsv"
  printf 'gpu_day: %-12s %4s s  %s\n' "$name" "$((SECONDS - begin))" "$status"
}

if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then
  nvidia-smi --query-gpu=timestamp,power.draw,memory.used,utilization.gpu,clocks.sm --format=csv,noheader,nounits -l 1 \
    >"$out/samples.csv" &
  sampler=$!
fi
machine() {
  nvidia-smi
  lscpu | grep -E '^Model name|^CPU\(s\)|^L3|^NUMA node\(s\)'
  free -g | head -n 2
  "$TAUGRID_TORCH_PYTHON" -c 'import sys, torch; print(sys.version); print(torch.__version__, torch.version.cuda)'
  OMPI_MCA_ess_singleton_isolated=1 "$program" info
}
verify() { OMPI_MCA_ess_singleton_isolated=1 "$program" verify --device "$device"; }
bench() { OMPI_MCA_ess_singleton_isolated=1 "$program" bench --repetitions 3 "$@"; }
bench_device() { bench --device "$device" --json "$out/bench_device.json" ${some:+--filter "$some"}; }
bench_host() { bench --device cpu --json "$out/bench_cpu.json" ${some:+--filter "$some"}; }
twins() { "$TAUGRID_TORCH_PYTHON" jobs/gpu_day/twins.py "$program" "$work/twins" --device "$device" ${some:+--only step/standard}; }
large() {
  "$TAUGRID_TORCH_PYTHON" jobs/gpu_day/large.py "$work/large" ${some:+--small} &&
    OMPI_MCA_ess_singleton_isolated=1 "$program" run "$work/large/large.toml" --run-dir "$work/large/run" --device "$device" &&
    cp "$work/large/run/results.h5" "$out/large.h5"
}
quickstart() {
  mkdir "$work/data" && tar -xf "$data" -C "$work/data" &&
    "$launcher" -n "$ranks" --oversubscribe --bind-to none "$program" run jobs/experiments/quickstart.toml \
      --run-dir "$work/quickstart" --set "data.folder=$work/data" --device "$device" || return
  cp "$work/quickstart/results.h5" "$out/quickstart.h5"
  "$TAUGRID_TORCH_PYTHON" -m taugrid_analysis reproduce quickstart "$work/quickstart"
}
tests() {
  TAUGRID="$program" MPIRUN="$launcher" "$TAUGRID_TORCH_PYTHON" -m pytest -q -p no:cacheprovider --durations=0 tests/gpu
}
some=""
[ "$device" != rehearsal ] || some='^(forward|combine|gram|step/standard)$'
export -f machine verify bench bench_device bench_host twins large quickstart tests
export program launcher out work data device ranks some

step machine 30 machine
step verify 120 verify
step bench 90 bench_device
step twins 160 twins
step large 120 large
if [ "$device" != rehearsal ]; then
  [ -z "$data" ] || step quickstart 150 quickstart
  step tests 200 tests
fi
step bench_host 120 bench_host
[ -z "${sampler:-}" ] || kill "$sampler" 2>/dev/null
"$TAUGRID_TORCH_PYTHON" jobs/gpu_day/summary.py "$out" >"$out/summary.md" || echo "gpu_day: no summary could be made of $out" >&2
rm -f "$out"/*.began
echo "gpu_day: $out/summary.md"
