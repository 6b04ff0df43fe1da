//! Functions that numba, or another compiler, made of a policy's: called by their addresses, without the interpreter.

use std::ptr;

/// Head, rows, how many rows, a row, a page, whether it is a write. What it answers is its own; [`RAISED`] is an
/// exception.
type Raw = unsafe extern "C" fn(*mut u64, *mut u64, i64, i64, i64, i64) -> i64;

/// What a function answers that ended in an exception.
pub const RAISED: i64 = -1;

/// What functions keep: a head, and a row for each entry. Both begin as zeros.
#[derive(Clone, Debug)]
pub struct State {
    head: Vec<u64>,
    rows: Vec<u64>,
    count: usize,
}

impl State {
    /// Of so many rows; sizes in bytes.
    pub fn new(head: usize, row: usize, count: usize) -> State {
        let zeros = |bytes: usize| vec![0; bytes.div_ceil(8).max(1)];
        State { head: zeros(head), rows: zeros(row * count), count }
    }
}

/// A function of this kind.
#[derive(Clone, Copy, Debug)]
pub struct Function(Raw);

impl Function {
    /// The function at an address; none at 0.
    pub fn at(address: usize) -> Option<Function> {
        if address == 0 {
            return None;
        }
        let code: *const () = ptr::with_exposed_provenance(address);
        // SAFETY: the Python half (`varve._compiled`) hands out addresses of functions that it compiled with this
        // signature, and keeps the compiled code for as long as the process lives.
        Some(Function(unsafe { std::mem::transmute::<*const (), Raw>(code) }))
    }

    /// Calls it.
    pub fn call(self, state: &mut State, row: usize, page: u32, write: bool) -> i64 {
        let (head, rows) = (state.head.as_mut_ptr(), state.rows.as_mut_ptr());
        let (count, row) = (state.count as i64, row as i64);
        // SAFETY: both lie in memory that nobody else has meanwhile, as large as their types in Python say, aligned to
        // eight bytes; the compiled code checks every index of its rows.
        unsafe { (self.0)(head, rows, count, row, i64::from(page), i64::from(write)) }
    }
}
