//! Both shells of the log as one: what a test asks of the modelled one it asks of the live one.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use block::{BlockDevice, Data, DeviceError, Medium, Request};
use varve_remap::live::{Around, LiveError};
use varve_remap::{Engine, HostLog, LiveLog, LogOptions};

use super::{BLOCK, lba, sectors};

pub enum Log<D: BlockDevice> {
    Modelled(Box<HostLog<D>>),
    Live(LiveLog),
}

fn around() -> Around {
    Around { say: |_| {}, turns: None }
}

impl<D: BlockDevice + Medium + Clone + 'static> Log<D> {
    pub fn format(live: bool, disk: &D, options: &LogOptions) -> Log<D> {
        match live {
            false => Log::Modelled(Box::new(HostLog::format(disk.clone(), options).unwrap())),
            true => Log::Live(LiveLog::format(Arc::new(disk.clone()), options, around()).unwrap()),
        }
    }
    /// The process ended; another one opens what is there.
    pub fn again(self, disk: &D, options: &LogOptions) -> Log<D> {
        match self {
            Log::Modelled(log) => {
                let (at, device) = (log.now(), log.into_device());
                Log::Modelled(Box::new(HostLog::open(device, at, options).unwrap()))
            }
            Log::Live(log) => {
                drop(log);
                Log::Live(LiveLog::open(Arc::new(disk.clone()), options, around()).unwrap())
            }
        }
    }
    pub fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        match self {
            Log::Modelled(log) => look(log.engine()),
            Log::Live(log) => log.with_engine(look),
        }
    }
    /// Fills a block; `false`: it was refused.
    pub fn try_write(&mut self, block: u32, byte: u8) -> bool {
        let bytes = [byte; BLOCK];
        match self {
            Log::Modelled(log) => {
                let write = Request::write(lba(block), sectors(1)).with(Data::Write(&bytes));
                log.submit(log.now(), write).is_ok()
            }
            Log::Live(log) => log.write(u64::from(block) * BLOCK as u64, &bytes).is_ok(),
        }
    }
    pub fn write(&mut self, block: u32, byte: u8) {
        assert!(self.try_write(block, byte), "block {block} is refused");
    }
    pub fn try_flush(&mut self) -> bool {
        match self {
            Log::Modelled(log) => log.submit(log.now(), Request::flush()).is_ok(),
            Log::Live(log) => log.flush().is_ok(),
        }
    }
    pub fn flush(&mut self) {
        assert!(self.try_flush(), "a flush failed");
    }
    /// The byte of which all of a block is; none if it is damaged.
    pub fn read(&mut self, block: u32) -> Option<u8> {
        let mut out = [0xEE; BLOCK];
        let damaged = match self {
            Log::Modelled(log) => {
                let read = Request::read(lba(block), sectors(1)).with(Data::Read(&mut out));
                match log.submit(log.now(), read) {
                    Ok(_) => false,
                    Err(DeviceError::Unreadable(at)) => {
                        assert_eq!(at, lba(block));
                        true
                    }
                    Err(error) => panic!("block {block}: {error}"),
                }
            }
            Log::Live(log) => match log.read(u64::from(block) * BLOCK as u64, &mut out) {
                Ok(()) => false,
                Err(LiveError::Damaged(what)) => {
                    assert!(what.contains(&format!("block {block}")), "{what}");
                    true
                }
                Err(error) => panic!("block {block}: {error}"),
            },
        };
        assert!(
            damaged || out.iter().all(|byte| *byte == out[0]),
            "block {block} is of two writes"
        );
        (!damaged).then_some(out[0])
    }
}
