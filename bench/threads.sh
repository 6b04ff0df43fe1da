#!/usr/bin/env bash
# The mounted file system with several programs at once, beside ext4 on a loop device over a file of the same
# disk, in turns, in one run. Prints operations a second (medians), the 99th percentile and the most of what waits, and
# ratios.
#
#   bench/threads.sh [--runs 5] [--seconds 3] [--options LIST]
#
#   --seconds  of each job
#   --options  `-o` of our mount
#
#   VARVE      our program (target/release/varve of this checkout)
#   SCRATCH    where the two images go for the time of the run; a disk, not a tmpfs (TMPDIR, or /var/tmp)
#
# fsync N: N threads overwrite 4 KiB at random in a file of their own and fdatasync each time. read: 4 KiB, direct, at
# random, alone and beside such a thread. churn N: N threads create a file of 8 KiB, fsync and delete it.
# create: one thread creates files of 8 KiB without fsync (and deletes them 500 at a time), alone and beside one
# that writes 1 MiB and fsyncs. Two controls say what of the difference is the file system's: apart: that one does so on
# a volume of its own (of the same system, on the same disk), so that nothing is shared but processors and disk. awake: the
# same as alone and beside, while processors with nothing to do wait for work and do not sleep (/dev/cpu_dma_latency; left
# out where there is none): in a virtual machine to wake one takes longer than a request does. clean: 4 KiB, direct, at random, read beside a thread that writes so on a volume of 768 MiB
# that is 75 % full and was written over before, so that ours is cleaned. Needs root, fio, python3 and mkfs.ext4.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VARVE=${VARVE:-$here/target/release/varve}
runs=5; seconds=3; options=

usage() { sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "threads.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --runs|--seconds|--options)
      [ $# -gt 1 ] || die "$1: a value is missing"
      declare "${1#--}=$2"; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument $1" ;;
  esac
  shift
done
[ "$(id -u)" -eq 0 ] || die "needs root"
[ -x "$VARVE" ] || die "$VARVE: not there; build it with \`cargo build --release -p varve-cli\`"
for tool in fio python3 mkfs.ext4; do command -v $tool >/dev/null || die "$tool: not there (scripts/setup)"; done

scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/var/tmp}}/threads.XXXXXX")
dir=$scratch/mounted
other=$scratch/other
mkdir "$dir" "$other"
declare -A servers=()
end() {
  local of
  for of in "$dir" "$other"; do ! mountpoint -q "$of" || umount "$of" || umount -l "$of" || true; done
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT

up() { # varve|ext4 [MiB] [DIR]: anew and empty
  local size=${2:-2048} where=${3:-$dir}
  local image=$where.image log=$where.log
  rm -f "$image"
  truncate -s "${size}M" "$image"
  if [ "$1" = ext4 ]; then
    mkfs.ext4 -q "$image"
    mount -o loop "$image" "$where"
    return
  fi
  "$VARVE" mkfs "$image" --size "${size}MiB" --force >/dev/null
  "$VARVE" mount "$image" "$where" --foreground ${options:+-o "$options"} >"$log" 2>&1 &
  servers[$where]=$!
  for _ in $(seq 200); do
    ! mountpoint -q "$where" || return 0
    kill -0 "${servers[$where]}" 2>/dev/null || break
    sleep 0.02
  done
  cat "$log" >&2
  die "it did not mount"
}

down() { # [DIR]
  local where=${1:-$dir}
  umount "$where"
  [ -z "${servers[$where]:-}" ] || wait "${servers[$where]}" || die "the server failed: $(cat "$where.log")"
  unset "servers[$where]"
}

cat >"$scratch/churn.py" <<'PY'
"""churn.py DIR THREADS SECONDS fsync|plain [beside DIR] [awake]: files a second, 99th percentile and most of one in ms, and
how often a second the one beside them syncs."""
import os, sys, threading, time

where, threads, seconds, how = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
small, large, found, synced = b"x" * 8192, b"y" * (1 << 20), [], [0]
if "awake" in sys.argv:
    awake = open("/dev/cpu_dma_latency", "wb", buffering=0)  # as long as it is open
    awake.write(bytes(4))


def creator(i):
    base, n, took, end = f"{where}/{how}{i}", 0, [], time.monotonic() + seconds
    os.makedirs(base, exist_ok=True)
    while time.monotonic() < end:
        begun, path = time.monotonic(), f"{base}/{n}"
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.write(file, small)
        if how == "fsync":
            os.fsync(file)
        os.close(file)
        if how == "fsync":
            os.unlink(path)
        elif n % 500 == 499:
            for old in range(n - 499, n + 1):
                os.unlink(f"{base}/{old}")
        n += 1
        took.append(time.monotonic() - begun)
    took.sort()
    found.append((n / seconds, took[int(len(took) * 0.99)] * 1e3, took[-1] * 1e3))


def syncer(stop):
    place = sys.argv[sys.argv.index("beside") + 1]
    file, n, begun = os.open(f"{place}/large", os.O_CREAT | os.O_WRONLY), 0, time.monotonic()
    while not stop.is_set():
        os.pwrite(file, large, (n % 32) << 20)
        os.fsync(file)
        n += 1
    synced[0] = n / (time.monotonic() - begun)


stop = threading.Event()
beside = threading.Thread(target=syncer, args=(stop,))
if "beside" in sys.argv:
    beside.start()
all = [threading.Thread(target=creator, args=(i,)) for i in range(threads)]
[one.start() for one in all]
[one.join() for one in all]
stop.set()
if "beside" in sys.argv:
    beside.join()
print(sum(one[0] for one in found), max(one[1] for one in found), max(one[2] for one in found), synced[0])
PY

note() { echo "$1 $2 $3" >>"$scratch/results"; } # SYSTEM JOB "RATE P99 MOST"

files() { # SYSTEM JOB NAME FIO-OPTIONS..: rate, p99 and most of the job NAME
  local system=$1 job=$2 name=$3
  shift 3
  note "$system" "$job" "$(fio --output-format=json --directory="$dir" --size=64M --bs=4k --time_based \
    --runtime="$seconds" --ioengine=psync "$@" | python3 -c 'import json, sys
jobs = [j for j in json.load(sys.stdin)["jobs"] if j["jobname"] == sys.argv[1]]
kind = "read" if jobs[0]["read"]["total_ios"] else "write"
p99 = max(j[kind]["clat_ns"]["percentile"]["99.000000"] for j in jobs) / 1e6
most = max(j[kind]["clat_ns"]["max"] for j in jobs) / 1e6
print(sum(j[kind]["iops"] for j in jobs), p99, most)' "$name")"
}

cleaned() { # segments that ours has cleaned since the mount
  python3 -c 'import json, os, sys
print(json.loads(os.getxattr(sys.argv[1], "user.varve.stats"))["results"]["cleaned_segments"])' "$dir"
}

crowded() { # SYSTEM: reads while the volume is cleaned
  local before=0 one=(--filename=c --size=576M --bs=4k --direct=1 --ioengine=psync)
  fio --directory="$dir" "${one[@]}" --bs=1M --rw=write --name=fill >/dev/null
  fio --directory="$dir" "${one[@]}" --rw=randwrite --io_size=192M --name=age >/dev/null
  [ "$1" = ext4 ] || before=$(cleaned)
  files "$1" clean r --name=r "${one[@]}" --rw=randread --name=w "${one[@]}" --rw=randwrite
  [ "$1" = ext4 ] || echo "$(($(cleaned) - before))" >>"$scratch/cleaned"
}

churn() { note "$1" "$2" "$(python3 "$scratch/churn.py" "$dir" "$3" "$seconds" "${@:4}")"; }

for _ in $(seq "$runs"); do
  for system in varve ext4; do
    up $system
    fio --directory="$dir" --size=64M --bs=1M --rw=write --name=r --end_fsync=1 >/dev/null
    for n in 1 8 16; do files $system fsync-$n w --name=w --rw=randwrite --fdatasync=1 --numjobs=$n; done
    files $system read-alone r --name=r --rw=randread --direct=1
    files $system read-beside r --name=r --rw=randread --direct=1 --name=w --rw=randwrite --fdatasync=1 --direct=0
    for n in 1 4; do churn $system churn-$n $n fsync; done
    churn $system create-alone 1 plain
    churn $system create-beside 1 plain beside "$dir"
    if [ -w /dev/cpu_dma_latency ]; then
      churn $system awake-alone 1 plain awake
      churn $system awake-beside 1 plain beside "$dir" awake
    fi
    up $system 2048 "$other"
    churn $system create-apart 1 plain beside "$other"
    down "$other"
    down
    up $system 768
    crowded $system
    down
  done
done
python3 - "$scratch/results" "$scratch/cleaned" <<'PY'
import os, statistics, sys
found = {}
for line in open(sys.argv[1]):
    system, job, *numbers = line.split()
    found.setdefault((job, system), []).append([float(number) for number in numbers])
middle = {key: [statistics.median(part) for part in zip(*runs)] for key, runs in found.items()}
head = f"{'p99 ms':>8} {'most ms':>8}"
print(f"{'':16}{'here /s':>10} {head} {'ext4 /s':>10} {head} {'here of ext4':>13}")
for job in dict.fromkeys(job for job, _ in middle):
    ours, theirs = middle[job, "varve"], middle[job, "ext4"]
    both = " ".join(f"{one[0]:10.0f} {one[1]:8.2f} {one[2]:8.2f}" for one in (ours, theirs))
    print(f"{job:16}{both} {ours[0] / theirs[0]:13.2f}")
for job, beside in (("read", "beside"), ("create", "beside"), ("create", "apart"), ("awake", "beside")):
    if (f"{job}-{beside}", "varve") not in middle:
        continue
    pairs = {system: (middle[f"{job}-{beside}", system], middle[f"{job}-alone", system]) for system in ("varve", "ext4")}
    parts = [f"{name} {pair[0][0] / pair[1][0]:.2f}" for name, pair in zip(("here", "ext4"), pairs.values())]
    print(f"{job}-{beside} of {job}-alone: {', '.join(parts)}", end="")
    syncs = [f"{name} {pair[0][3]:.0f}" for name, pair in zip(("here", "ext4"), pairs.values()) if len(pair[0]) > 3]
    print(f"; syncs of 1 MiB a second beside them: {', '.join(syncs)}" if syncs else "")
for n in (8, 16):
    print(f"{n} threads that sync, of one: here {middle[f'fsync-{n}', 'varve'][0] / middle['fsync-1', 'varve'][0]:.2f}, "
          f"ext4 {middle[f'fsync-{n}', 'ext4'][0] / middle['fsync-1', 'ext4'][0]:.2f}")
print("segments cleaned beside the reads of `clean`:", *open(sys.argv[2]).read().split())
print("load average: %.1f %.1f %.1f" % os.getloadavg())
PY
