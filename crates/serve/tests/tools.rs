//! The NBD server, used by the tools that people use: libnbd's, QEMU's and fio. `scripts/setup`
//! installs them; one that is missing is a failure, and says so.

mod server;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use server::Running;
use stack::disk::{MediumDisk, RamDisk};
use varve_serve::nbd::{Address, Export, Limits};

const MIB: usize = 1 << 20;

fn ram() -> Running {
    let disk = Arc::new(RamDisk::new(32 << 20).expect("memory"));
    server::run(vec![Export::new("disk", disk)], Limits::default())
}

fn uri(server: &Running) -> String {
    match &server.address {
        Address::Unix(path) => format!("nbd+unix:///disk?socket={}", path.display()),
        Address::Tcp(address) => format!("nbd://{address}/disk"),
    }
}

/// Runs a tool that must succeed; what it printed.
fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{program}: {error}; scripts/setup installs what the tests need")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}{said}");
    text + &said
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = server::socket("tools");
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// 32 MiB with holes in it.
fn content(seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; 32 * MIB];
    for start in (0..bytes.len()).step_by(3 * MIB) {
        let end = (start + MIB + 777).min(bytes.len());
        for (i, byte) in bytes[start..end].iter_mut().enumerate() {
            *byte = (i * 31 + start + seed) as u8;
        }
    }
    bytes
}

#[test]
fn nbdinfo_is_told_what_there_is() {
    let server = ram();
    let text = tool("nbdinfo", &[&uri(&server)]);
    for line in [
        "export-size: 33554432",
        "can_flush: true",
        "can_fua: true",
        "can_trim: true",
        "can_zero: true",
        "can_fast_zero: true",
        "can_multi_conn: true",
        "can_df: true",
        "can_cache: false",
        "base:allocation",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    let map = tool("nbdinfo", &["--map", &uri(&server)]);
    assert!(map.contains("hole,zero"), "{map}");
    assert!(tool("nbdinfo", &["--list", &uri(&server)]).contains("export=\"disk\""));
}

#[test]
fn nbdcopy_brings_an_image_in_and_out() {
    let (server, folder) = (ram(), Folder::new());
    std::fs::write(folder.path("in"), content(1)).expect("written");
    tool("nbdcopy", &["--flush", &folder.path("in"), &uri(&server)]);
    tool("nbdcopy", &[&uri(&server), &folder.path("out")]);
    assert!(std::fs::read(folder.path("out")).expect("read") == content(1));
}

#[test]
fn qemu_img_converts_and_compares() {
    let (server, folder) = (ram(), Folder::new());
    let (raw, qcow, uri) = (folder.path("raw"), folder.path("qcow2"), uri(&server));
    std::fs::write(&raw, content(2)).expect("written");
    tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &raw, &uri]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &raw, &uri]);
    tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &qcow]);
    tool("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &uri]);
}

#[test]
fn qemu_io_writes_zeroes_discards_and_flushes() {
    let server = ram();
    let commands = [
        "write -P 7 0 1M",
        "write -f -P 8 1M 64k",
        "flush",
        "discard 0 512k",
        "read -P 0 0 512k",
        "read -P 7 512k 512k",
        "write -z 512k 4k",
        "write -z -u 516k 4k",
        "read -P 0 512k 8k",
        "read -P 8 1M 64k",
        "aio_write -P 9 2M 8k",
        "aio_flush",
        "read -P 9 2M 8k",
    ];
    let uri = uri(&server);
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", *command]));
    arguments.push(&uri);
    let text = tool("qemu-io", &arguments);
    assert!(!text.contains("failed"), "{text}");
    let counts = server.stop();
    let count = |name| counts.iter().find(|(found, _)| *found == name).expect(name).1;
    assert!(count("trims") > 0 && count("zeroes") > 0 && count("forced") > 0, "{counts:?}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    let folder = Folder::new();
    let path = folder.path("image");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(path);
    let file = file.expect("a file");
    file.set_len(32 << 20).expect("room");
    let disk = MediumDisk::new(Arc::new(live::FileMedium(file))).expect("a disk");
    // The client keeps to the limit that it is told, so that sectors are allowed.
    let export = Export { smallest: 512, ..Export::new("disk", Arc::new(disk)) };
    let server = server::run(vec![export], Limits::default());
    let uri = format!("--uri={}", uri(&server));
    // No file of fio's own where the tests run.
    let quiet = "--verify_state_save=0";
    let common = ["--ioengine=nbd", &uri, "--size=16M", "--iodepth=32", "--name=verify", quiet];
    let job = ["--rw=randwrite", "--bs=4k", "--verify=crc32c", "--verify_fatal=1", "--fsync=64"];
    tool("fio", &[&common[..], &job[..]].concat());
    let mixed = ["--rw=randwrite", "--bsrange=512-128k", "--verify=crc32c"];
    tool("fio", &[&common[..], &mixed[..], &["--verify_fatal=1"]].concat());
}
