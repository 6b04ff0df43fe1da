#!/usr/bin/env bash
# NBD servers side by side: nbdkit, qemu-nbd and ours, over a unix socket, interleaved, driven by
# fio. Prints IOPS (median, least, most), CPU per operation of the server, and the ratio of ours to
# each peer.
#
#   bench/nbd.sh [--runs 3] [--size 1G] [--only SERVER[,SERVER..]] [--jobs JOB[,JOB..]] [--seconds 1.5]
#                [--priority yes|no]
#
#   SERVER   varve-ram nbdkit-memory nbdkit-null qemu-tmpfs, or what VARVE_STACKS names
#   JOB      qd1x1 qd1x2 qd32x1 qd32x2 (depth x connections), each with reads and writes
#
#   VARVE         our program (target/release/varve of this checkout)
#   VARVE_STACKS  more of ours, one a line: NAME OPTIONS of `varve serve nbd`
#   SCRATCH       where sockets and files go for the time of the run; a tmpfs (/dev/shm)
#
# Needs fio with its nbd engine, nbdkit and qemu-nbd (scripts/setup). Whoever may (root, or a limit
# on real-time priority) runs servers and clients with real-time priority, against the noise of others;
# else that is said. `--priority no`: as programs usually run. A server with more threads than there are
# cores to run them fares differently under the two.
# Every server gets an export of its own, filled first and then overwritten once at random, so that a
# log below it has gone round and is cleaning. A peer that is not installed is left out.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VARVE=${VARVE:-$here/target/release/varve}
runs=3; size=1G; only=; jobs=qd1x1,qd1x2,qd32x1,qd32x2; seconds=1.5; priority=yes

usage() { sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "nbd.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --runs|--size|--only|--jobs|--seconds|--priority)
      [ $# -gt 1 ] || die "$1: a value is missing"
      declare "${1#--}=$2"; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument $1" ;;
  esac
  shift
done
[ -x "$VARVE" ] || die "$VARVE: not there; build it with \`cargo build --release -p varve\`"
for tool in fio python3; do command -v $tool >/dev/null || die "$tool: not there (scripts/setup)"; done

scratch=$(mktemp -d "${SCRATCH:-/dev/shm}/nbd.XXXXXX")
pids=()
stop_all() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap stop_all EXIT

case $priority in
  yes) fast=(chrt -f 1) ;;
  no) fast=() ;;
  *) die "--priority $priority: expected yes or no" ;;
esac
"${fast[@]}" true 2>/dev/null || { fast=(); echo "nbd.sh: no real-time priority: numbers vary more" >&2; }

names=(); declare -A pid_of
# start NAME COMMAND..: a server at $scratch/NAME.sock
start() {
  local name=$1; shift
  [ -z "$only" ] || [[ ,$only, == *,$name,* ]] || return 0
  command -v "$1" >/dev/null || { echo "nbd.sh: $1 is not there: $name is left out" >&2; return 0; }
  "${fast[@]}" "$@" >"$scratch/$name.log" 2>&1 </dev/null &
  pids+=($!); pid_of[$name]=$!; names+=("$name")
  for _ in $(seq 100); do
    [ -S "$scratch/$name.sock" ] && break
    kill -0 "${pid_of[$name]}" 2>/dev/null || { cat "$scratch/$name.log" >&2; die "$name: did not start"; }
    sleep 0.05
  done
  fio --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/$name.sock" --size="$size" \
    --name=fill --rw=write --bs=1M --iodepth=4 \
    --name=age --stonewall --rw=randwrite --bs=4k --iodepth=32 --norandommap \
    >"$scratch/$name.fill" 2>&1 || { cat "$scratch/$name.fill" >&2; die "$name: fill"; }
}

sock() { echo "$scratch/$1.sock"; }
start nbdkit-memory nbdkit -f -U "$(sock nbdkit-memory)" memory size="$size"
start nbdkit-null nbdkit -f -U "$(sock nbdkit-null)" null size="$size"
if [ -z "$only" ] || [[ ,$only, == *,qemu-tmpfs,* ]]; then truncate -s "$size" "$scratch/qemu.img"; fi
start qemu-tmpfs qemu-nbd -f raw -k "$(sock qemu-tmpfs)" -t -e 8 --cache=writeback "$scratch/qemu.img"
start varve-ram "$VARVE" serve nbd --ram "${size}iB" --socket "$(sock varve-ram)"
while read -r name options; do
  # shellcheck disable=SC2086
  [ -z "$name" ] || start "$name" "$VARVE" serve nbd $options --socket "$(sock "$name")"
done <<<"${VARVE_STACKS:-}"
[ ${#names[@]} -gt 0 ] || die "no server"

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
# one NAME JOB RW: "iops cpu_us_per_op" appended to NAME.JOB.RW
one() {
  local name=$1 job=$2 rw=$3 depth conns pin=() before after
  depth=${job#qd}; depth=${depth%x*}; conns=${job#*x}
  [ "$depth" != 1 ] || pin=(taskset -c 1)
  if [ "$depth" = 1 ]; then taskset -apc 1 "${pid_of[$name]}" >/dev/null
  else taskset -apc "0-$(($(nproc --all) - 1))" "${pid_of[$name]}" >/dev/null; fi
  before=$(ticks "${pid_of[$name]}")
  "${pin[@]}" "${fast[@]}" fio --name=j --ioengine=nbd --uri="nbd+unix:///?socket=$(sock "$name")" \
    --bs=4k --size="$size" --group_reporting --time_based --ramp_time=0.5s --norandommap \
    --randrepeat=0 --output-format=json --runtime="${seconds}s" --rw="rand$rw" --iodepth="$depth" \
    --numjobs="$conns" >"$scratch/fio.json" 2>"$scratch/fio.err" || { cat "$scratch/fio.err" >&2; die "$name $job $rw: fio failed"; }
  after=$(ticks "${pid_of[$name]}")
  # CPU is that of the ramp and the run; operations are those of the run, so they are scaled.
  python3 - "$scratch/fio.json" "$rw" $((after - before)) "$(getconf CLK_TCK)" "$seconds" >>"$scratch/$name.$job.$rw" <<'PY'
import json, sys
path, rw, ticks, hertz, seconds = sys.argv[1:]
text = open(path).read()
side = json.loads(text[text.index('{'):])['jobs'][0][rw]
ops = side['iops'] * (float(seconds) + 0.5)
print(f"{side['iops']:.0f} {int(ticks) / int(hertz) / max(ops, 1) * 1e6:.2f}")
PY
}

IFS=, read -ra job_list <<<"$jobs"
for r in $(seq "$runs"); do
  for job in "${job_list[@]}"; do
    for rw in read write; do
      for name in "${names[@]}"; do one "$name" "$job" "$rw"; done
    done
  done
  echo "run $r of $runs done; load $(cut -d' ' -f1 /proc/loadavg)" >&2
done

echo "fio $(fio --version); 4 KiB random, $size filled and overwritten, $runs runs of ${seconds} s, interleaved; load $(cut -d' ' -f1-3 /proc/loadavg); $(nproc) CPUs"
python3 - "$scratch" "$jobs" "${names[@]}" <<'PY'
import statistics, sys
scratch, jobs, *names = sys.argv[1:]
print(f"{'server':<16} {'job':<7} {'':<6} {'IOPS':>8} {'least':>8} {'most':>8} {'us CPU/op':>9}")
median = {}
for job in jobs.split(','):
    for rw in ('read', 'write'):
        for name in names:
            rows = [line.split() for line in open(f'{scratch}/{name}.{job}.{rw}')]
            iops = sorted(int(row[0]) for row in rows)
            cpu = statistics.median(float(row[1]) for row in rows)
            median[name, job, rw] = statistics.median(iops)
            print(f"{name:<16} {job:<7} {rw:<6} {median[name, job, rw]:>8.0f} {iops[0]:>8} {iops[-1]:>8} {cpu:>9.2f}")
ours = [name for name in names if name.startswith('varve')]
for mine in ours:
    for peer in (name for name in names if name not in ours):
        ratios = [f"{job} {rw} {median[mine, job, rw] / max(median[peer, job, rw], 1):.2f}"
                  for job in jobs.split(',') for rw in ('read', 'write')]
        print(f"{mine} / {peer}: " + ', '.join(ratios))
PY
