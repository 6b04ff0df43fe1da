#!/usr/bin/env bash
# Peers and varve side by side: the same traces, interleaved, median CPU seconds.
#
#   MQSIM=DIR CACHESIM=PROGRAM ZIPF=FILE bench/peers.sh [--runs 5] [--only NAME[,NAME..]] [--list]
#
#   MQSIM      directory of a built MQSim: the program, ssdconfig.xml, workload.xml, traces/
#   CACHESIM   the `cachesim` program of libCacheSim
#   ZIPF       a trace in libCacheSim's oracleGeneral format
#   VARVE      our program (target/release/varve-bench of this checkout)
#   POLICIES   replacement policies compared with CACHESIM, each as here or here=there
#              (lru fifo clock sieve arc s3-fifo=s3fifo 2q=twoq)
#   CACHE      entries of that cache (100000)
#   SCRATCH    where generated traces and results go for the time of the run ($TMPDIR or /tmp)
#
# What a peer's variable does not name is left out. CPU seconds are user + system time of the
# whole process, start and reading of the trace included; a run that serves another number of
# requests than it was given stops the script. Nothing is fetched and nothing is built here.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VARVE=${VARVE:-$here/target/release/varve-bench}
POLICIES=${POLICIES:-lru fifo clock sieve arc s3-fifo=s3fifo 2q=twoq}
CACHE=${CACHE:-100000}
runs=5
only=
list=

usage() { sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "peers.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --runs) [ $# -gt 1 ] || die "--runs: expected a number"; runs=$2; shift ;;
    --only) [ $# -gt 1 ] || die "--only: expected names"; only=,$2,; shift ;;
    --list) list=1 ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument $1" ;;
  esac
  shift
done
case $runs in ''|*[!0-9]*|0) die "--runs $runs: expected a number from 1" ;; esac

# Rows: name, then what it runs. `req` is what the generated trace holds (0 = a shipped trace).
#      name          device  requests  reads%  bytes  places     interval_ns
sim_rows='
tpcc               shipped 0         -       -      -          -
wsrch              shipped 0         -       -      -          -
random-write-4k    shipped 400000    0       4096   33554432   40000
random-read-4k     shipped 1500000   100     4096   33554432   20000
gc-16g             16g     2500000   0       8192   915000     120000
'
if [ -n "$list" ]; then
  awk 'NF {print $1}' <<<"$sim_rows"
  for p in $POLICIES; do echo "$p"; done
  exit 0
fi
wanted() { [ -z "$only" ] || [[ $only == *,$1,* ]]; }

[ -x "$VARVE" ] || die "$VARVE: not there; build it with \`cargo build --release -p varve-bench\`"
[ -x /usr/bin/time ] || die "/usr/bin/time: not there (package \`time\`)"
[ -n "${MQSIM:-}${CACHESIM:-}" ] || { usage >&2; die "neither MQSIM nor CACHESIM is set"; }

scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/tmp}}/peers.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# sample LABEL COMMAND..: one run; "CPU seconds, peak RSS in MiB" appended to LABEL.samples.
# The shell's own timer counts in milliseconds, /usr/bin/time knows the memory.
sample() {
  local label=$1 cpu; shift
  local TIMEFORMAT='%3U %3S'
  cpu=$( { time /usr/bin/time -q -o "$scratch/rss" -f %M "$@" \
             >"$scratch/$label.out" 2>"$scratch/$label.err" </dev/null; } 2>&1 ) || {
    tail -n 5 "$scratch/$label.out" "$scratch/$label.err" >&2
    die "$label: failed: $*"
  }
  awk -v cpu="$cpu" 'END {split(cpu, t, " "); printf "%.3f %.0f\n", t[1] + t[2], $1 / 1024}' \
    "$scratch/rss" >>"$scratch/$label.samples"
}

# median LABEL COLUMN
median() {
  awk -v c="$2" '{print $c}' "$scratch/$1.samples" | sort -n |
    awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

# same NAME PEER OURS: both served what they were given.
same() {
  [ "$2" = "$3" ] || die "$1: the peer served '$2' requests, varve '$3'"
}

# row NAME REQUESTS NOTE: the medians of NAME.peer and NAME.varve
row() {
  awk -v name="$1" -v n="$2" -v note="$3" \
      -v p="$(median "$1.peer" 1)" -v v="$(median "$1.varve" 1)" \
      -v pm="$(median "$1.peer" 2)" -v vm="$(median "$1.varve" 2)" '
    function rate(r) { return r >= 1e6 ? sprintf("%.2f M", r / 1e6) : sprintf("%.1f k", r / 1e3) }
    BEGIN {
      if (v <= 0) v = 0.001
      printf "%-16s %9d  %8.3f %8.3f  %9s %9s  %7.1f  %6d %6d  %s\n",
        name, n, p, v, rate(n / p), rate(n / v), p / v, pm, vm, note
    }'
}
head_line() {
  printf '%-16s %9s  %8s %8s  %9s %9s  %7s  %6s %6s  %s\n' \
    "$1" requests 'peer s' 'varve s' 'peer r/s' 'varve r/s' ratio 'MiB' 'MiB' "$2"
}

# ---- MQSim -------------------------------------------------------------------------------------

# set_tag FILE TAG VALUE: changes one value of a shipped XML file's copy
set_tag() {
  grep -q "<$2>" "$1" || die "$1: no <$2>"
  sed -i "s|<$2>[^<]*</$2>|<$2>$3</$2>|" "$1"
}

# prepare_sim NAME DEVICE REQUESTS READS BYTES PLACES INTERVAL
prepare_sim() {
  local dir=$scratch/$1
  mkdir "$dir"
  cp "$MQSIM/ssdconfig.xml" "$dir/ssdconfig.xml"
  if [ "$2" = 16g ]; then
    set_tag "$dir/ssdconfig.xml" Block_No_Per_Plane 64
    set_tag "$dir/ssdconfig.xml" Overprovisioning_Ratio 0.127
    set_tag "$dir/ssdconfig.xml" GC_Block_Selection_Policy GREEDY
  fi
  if [ "$3" = 0 ]; then
    cp "$MQSIM/traces/$1-small.trace" "$dir/trace"
  else
    "$VARVE" trace --out "$dir/trace" --requests "$3" --reads "$4" --bytes "$5" --slots "$6" \
      --interval-ns "$7"
  fi
  # The third scenario of the shipped workload replays a trace.
  awk '/<MQSim_IO_Scenarios>/ {print} /<IO_Scenario>/ {n++} n == 3 {print}' \
    "$MQSIM/workload.xml" | { echo '<?xml version="1.0" encoding="us-ascii"?>'; cat; } >"$dir/wl.xml"
  set_tag "$dir/wl.xml" File_Path "$dir/trace"
}

run_sims() {
  local name device requests rest r n
  [ -x "$MQSIM/MQSim" ] || die "$MQSIM/MQSim: not there"
  awk 'NF' <<<"$sim_rows" >"$scratch/rows"
  while read -r name device requests rest; do
    # shellcheck disable=SC2086
    ! wanted "$name" || prepare_sim "$name" "$device" "$requests" $rest
  done <"$scratch/rows"
  for r in $(seq "$runs"); do
    while read -r name device requests rest; do
      wanted "$name" || continue
      echo "run $r of $runs: $name" >&2
      sample "$name.peer" "$MQSIM/MQSim" -i "$scratch/$name/ssdconfig.xml" -w "$scratch/$name/wl.xml"
      sample "$name.varve" "$VARVE" drive --mqsim "$scratch/$name/ssdconfig.xml" \
        --trace "$scratch/$name/trace" --fold
    done <"$scratch/rows"
  done
  head_line 'same trace' 'WAF of varve'
  while read -r name device requests rest; do
    wanted "$name" || continue
    n=$(awk 'NF {n++} END {print n}' "$scratch/$name/trace")
    same "$name" "$(sed -n 's/.*total requests serviced:\([0-9]*\).*/\1/p' "$scratch/$name.peer.out")" "$n"
    same "$name" "$n" "$(awk '$1 == "served" {print $2}' "$scratch/$name.varve.out")"
    row "$name" "$n" "$(awk '$1 == "waf" {w = $2} END {print w ? w : "-"}' "$scratch/$name.varve.out")"
  done <"$scratch/rows"
}

# ---- libCacheSim -------------------------------------------------------------------------------

run_caches() {
  local p r n
  [ -x "$CACHESIM" ] || die "$CACHESIM: not there"
  [ -r "${ZIPF:-}" ] || die "ZIPF=${ZIPF:-}: not there"
  CACHESIM=$(realpath "$CACHESIM"); ZIPF=$(realpath "$ZIPF"); VARVE=$(realpath "$VARVE")
  cd "$scratch"   # the peer leaves a directory `result` where it runs
  for r in $(seq "$runs"); do
    for both in $POLICIES; do
      p=${both%%=*}
      wanted "$p" || continue
      echo "run $r of $runs: $p" >&2
      sample "$p.peer" "$CACHESIM" "$ZIPF" oracleGeneral "${both#*=}" "$CACHE" --ignore-obj-size 1 --num-thread 1
      sample "$p.varve" "$VARVE" lru --trace "$ZIPF" --cache "$CACHE" --policy "$p"
    done
  done
  head_line "cache of $CACHE" 'miss ratio, peer / varve'
  for both in $POLICIES; do
    p=${both%%=*}
    wanted "$p" || continue
    n=$(sed -n 's/.* \([0-9]*\) req, miss ratio.*/\1/p' "$p.peer.out" | tail -n 1)
    same "$p" "$n" "$(awk '$1 == "served" {print $2}' "$p.varve.out")"
    row "$p" "$n" "$(sed -n 's/.*req, miss ratio \([0-9.]*\),.*/\1/p' "$p.peer.out" | tail -n 1) / $(
      awk '$1 == "miss_ratio" {print $2}' "$p.varve.out")"
  done
}

[ -z "${MQSIM:-}" ] || { MQSIM=$(realpath "$MQSIM"); run_sims; }
[ -z "${CACHESIM:-}" ] || run_caches
