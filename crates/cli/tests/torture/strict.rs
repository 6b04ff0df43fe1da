//! `--fs strict`, which gives only what POSIX promises.

use crate::place::{CHECK, Folder, PROGRAM, nothing_is_left, torture, varve};

/// Syncs each file and never its folder: ext4 keeps the names of new files that are synced.
const NAMELESS: &str = r#"
mkdir "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3 4; do
  echo "$i" >"$VARVE_DIR/d/$i"; sync "$VARVE_DIR/d/$i"; echo "$i" >"$VARVE_ACK"
done"#;

pub fn what_ext4_hides_is_seen_by_the_strict_one() {
    let folder = Folder::new();
    let run = |fs: &str, program: &str| {
        let options = ["--fs", fs, "--random", "20", "--jobs", "2", "--keep-going", "--out", fs];
        let words = [&options[..], &["--check", CHECK, "--", "sh", "-c", program, "SYNC"]].concat();
        torture(&folder, &words)
    };
    let (code, all) = run("ext4", NAMELESS);
    assert_eq!(code, 0, "{all:#}");
    let (code, all) = run("strict", NAMELESS);
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    assert_eq!(results["blame"]["missing_fsync"], "the folder /d", "{all:#}");
    assert_eq!(results["blame"]["names"][0], "names: +/w/d/1", "{all:#}");
    let out = varve(&folder, &["replay", results["plans"][0].as_str().expect("a plan")]);
    assert_eq!(out.status.code(), Some(4));
    // With an fsync of each folder nothing is lost.
    let (code, all) = run("strict", PROGRAM);
    assert_eq!((code, all["results"]["verdict"].as_str()), (0, Some("kept")), "{all:#}");
    nothing_is_left(&folder);
}

/// A file that another user made and one that was given away: to whom they belong is as durable as their `fsync`.
const OWNED: &str = r#"
cd "$VARVE_DIR" || exit 1
mkdir d; chown 7:9 d; chmod 2750 d
as() { setpriv --reuid=7 --regid=8 --clear-groups -- "$@"; }
is() { [ "$(stat -c %u:%g:%a "$1")" = "$2" ] || { echo "$1: $(stat -c %u:%g:%a "$1"), not $2" >&2; exit 1; }; }
umask 022
as sh -c 'echo made >d/made; mkdir d/below; ln -s made d/link' || exit 1
echo given >d/given; chown 5 d/given
ln -s made d/link2; chown -h 6:6 d/link2
is d 7:9:2750; is d/made 7:9:644; is d/below 7:9:2755; is d/link 7:9:777; is d/given 5:9:644; is d/link2 6:6:777
if as chown 5 d/made 2>/dev/null; then echo 'gave a file away' >&2; exit 1; fi
echo ready >"$VARVE_ACK"
for i in 1 2 3; do
  chown "1$i" d/given d/below; chmod "70$i" d/given d/below
  if [ "$0" = SYNC ]; then sync d/given d/below; fi
  echo "$i" >"$VARVE_ACK"
done"#;
const OWNERS: &str = r#"
cd "$VARVE_DIR" || exit 2
is() { [ "$(stat -c %u:%g:%a "$1")" = "$2" ] || { echo "$1: $(stat -c %u:%g:%a "$1"), not $2"; exit 1; }; }
is d 7:9:2750; is d/made 7:9:644; is d/link 7:9:777; is d/link2 6:6:777
given=$(stat -c %u d/given) below=$(stat -c %u d/below) i=$(tail -n 1 "$VARVE_ACKED")
if [ -z "$i" ]; then
  case "$given $below" in [51]*' '[71]*) exit 0 ;; *) echo "belong to $given and $below"; exit 1 ;; esac
fi
[ "$given" -ge "1$i" ] || { echo "$i: the file belongs to $given"; exit 1; }
[ "$below" -ge "1$i" ] || { echo "$i: the folder belongs to $below"; exit 1; }"#;

pub fn owners_are_kept_by_the_strict_one_from_their_fsync_on() {
    let folder = Folder::new();
    for (how, code, verdict) in [("SYNC", 0, "kept"), ("NO", 4, "lost")] {
        let options = ["--fs", "strict", "--random", "20", "--jobs", "2", "--keep-going"];
        let options = [&options[..], &["--no-self-check", "--out", how]].concat();
        let words = [&options[..], &["--check", OWNERS, "--", "sh", "-c", OWNED, how]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        if verdict == "lost" {
            let names = results["blame"]["names"].to_string();
            assert!(names.contains("/w/d/given") || names.contains("/w/d/below"), "{all:#}");
            let out = varve(&folder, &["replay", results["plans"][0].as_str().expect("a plan")]);
            assert_eq!(out.status.code(), Some(4));
        }
    }
    nothing_is_left(&folder);
}
