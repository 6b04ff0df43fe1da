//! A server for the time of a test.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use varve_serve::nbd::{Address, Export, Handle, Limits, Server};

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A path for a socket that no other test has.
pub fn socket(kind: &str) -> PathBuf {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("varve-{kind}-{}-{number}", std::process::id()))
}

/// A server in a thread of its own; it is stopped when this is dropped.
pub struct Running {
    pub address: Address,
    pub handle: Handle,
    thread: Option<JoinHandle<()>>,
}

pub fn run(exports: Vec<Export>, limits: Limits) -> Running {
    run_at(&Address::Unix(socket("nbd")), exports, limits)
}

pub fn run_at(address: &Address, exports: Vec<Export>, limits: Limits) -> Running {
    let server = Server::bind(address, exports, limits).expect("a socket");
    let (address, handle) = (server.address().expect("an address"), server.handle());
    let thread = std::thread::spawn(move || server.run().expect("served"));
    Running { address, handle, thread: Some(thread) }
}

impl Running {
    /// Stops it; what it counted.
    pub fn stop(mut self) -> Vec<(&'static str, u64)> {
        self.end();
        self.handle.counters()
    }
    fn end(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
