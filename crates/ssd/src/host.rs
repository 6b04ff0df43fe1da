//! The host side of the controller: link, firmware, DRAM port.
//!
//! Firmware costs a command twice over: core time, for which commands in flight compete, and
//! latency, which every command has to itself. A source that adds a constant to each request means
//! the latter; taken for core time it would limit the rate of a drive that has no such limit.

use block::{Span, Time};
use nand::{Spent, Timeline};

use crate::config::Params;
use crate::steps::Steps;

/// Resources that every command passes.
#[derive(Clone, Debug)]
pub(crate) struct HostSide {
    down: Timeline,
    up: Timeline,
    dram: Timeline,
    cores: Vec<Time>,
    fw_busy: Span,
    rate: u64,
    page_link: Span,
    dram_rate: u64,
    dram_latency: Span,
    fw: crate::config::FirmwareParams,
    enabled: bool,
    /// What commands waited for here, if somebody asks.
    pub steps: Option<Box<Steps>>,
}

impl HostSide {
    pub fn new(p: &Params) -> HostSide {
        HostSide {
            down: Timeline::default(),
            up: Timeline::default(),
            dram: Timeline::default(),
            cores: vec![Time::ZERO; p.firmware.cores as usize],
            fw_busy: Span::ZERO,
            rate: p.link.rate,
            page_link: Span::transfer(4096, p.link.rate),
            dram_rate: p.dram.rate,
            dram_latency: p.dram.latency,
            fw: p.firmware.clone(),
            enabled: p.timing.enabled,
            steps: None,
        }
    }

    /// Switches timing on or off.
    pub fn set_timing(&mut self, on: bool) {
        self.enabled = on;
    }

    fn core(&mut self, at: Time, span: Span) -> Time {
        if span == Span::ZERO || !self.enabled {
            return at;
        }
        let Some(first) = self.cores.iter_mut().min_by_key(|free| **free) else { return at };
        let start = at.max(*first);
        *first = start + span;
        self.fw_busy += span;
        start + span
    }

    /// A core's time, then latency.
    fn firmware(&mut self, at: Time, core: Span, latency: Span) -> Time {
        let done = if self.enabled { self.core(at, core) + latency } else { at };
        self.note(at, done, Spent::Firmware)
    }

    /// Notes what a command waited for; when that is over.
    #[inline]
    fn note(&mut self, at: Time, end: Time, spent: Spent) -> Time {
        if let Some(steps) = &mut self.steps {
            steps.note(at, end, spent);
        }
        end
    }

    /// Firmware of a read command of `bytes`.
    pub fn start_read(&mut self, at: Time, bytes: u64) -> Time {
        self.firmware(at, self.fw.core.of_read(bytes), self.fw.latency.of_read(bytes))
    }
    /// Firmware of a write command of `bytes`.
    pub fn start_write(&mut self, at: Time, bytes: u64) -> Time {
        self.firmware(at, self.fw.core.of_write(bytes), self.fw.latency.of_write(bytes))
    }
    /// Firmware of a command without data.
    pub fn start_other(&mut self, at: Time) -> Time {
        self.firmware(at, self.fw.core.write, Span::ZERO)
    }
    /// Completion of any command.
    pub fn complete(&mut self, at: Time) -> Time {
        let done = if self.enabled { at + self.fw.complete } else { at };
        self.note(at, done, Spent::Firmware)
    }

    fn link_span(&self, bytes: u64) -> Span {
        if bytes == 4096 { self.page_link } else { Span::transfer(bytes, self.rate) }
    }
    /// Data from the host; when the last byte is there.
    pub fn receive(&mut self, now: Time, at: Time, bytes: u64) -> Time {
        if !self.enabled || self.rate == 0 {
            return at;
        }
        let span = self.link_span(bytes);
        let done = self.down.book(now, at, span).1;
        self.note(at, done, Spent::Link)
    }
    /// Data to the host.
    pub fn send(&mut self, now: Time, at: Time, bytes: u64) -> Time {
        if !self.enabled || self.rate == 0 {
            return at;
        }
        let span = self.link_span(bytes);
        let done = self.up.book(now, at, span).1;
        self.note(at, done, Spent::Link)
    }
    /// One access to the buffer's DRAM.
    pub fn dram(&mut self, now: Time, at: Time, bytes: u64) -> Time {
        if !self.enabled {
            return at;
        }
        let span = self.dram_latency + Span::transfer(bytes, self.dram_rate);
        let done = self.dram.book(now, at, span).1;
        self.note(at, done, Spent::Dram)
    }

    /// Busy times: link down and up, firmware, DRAM; and the gaps their timelines forgot.
    pub fn busy(&self) -> ([Span; 2], Span, Span, u64) {
        let dropped = self.down.dropped() + self.up.dropped() + self.dram.dropped();
        ([self.down.busy(), self.up.busy()], self.fw_busy, self.dram.busy(), dropped)
    }
    /// When nothing that is booked goes on any more.
    pub fn booked_until(&self) -> Time {
        let links = [&self.down, &self.up, &self.dram].map(Timeline::free_from);
        links.into_iter().chain(self.cores.iter().copied()).max().unwrap_or_default()
    }
    pub fn reset_stats(&mut self) {
        self.down.reset_stats();
        self.up.reset_stats();
        self.dram.reset_stats();
        self.fw_busy = Span::ZERO;
    }
}
