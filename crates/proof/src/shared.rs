//! A disk whose power can be cut, also while something above it has it.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use block::{BlockDevice, CutDevice, DeviceError, Request, Sectors, Time};

/// One disk, by several handles of one thread.
#[derive(Clone)]
pub(crate) struct SharedDisk(Rc<RefCell<CutDevice>>);

impl SharedDisk {
    pub(crate) fn new(disk: CutDevice) -> SharedDisk {
        SharedDisk(Rc::new(RefCell::new(disk)))
    }
    pub(crate) fn get(&self) -> Ref<'_, CutDevice> {
        self.0.borrow()
    }
    pub(crate) fn get_mut(&self) -> RefMut<'_, CutDevice> {
        self.0.borrow_mut()
    }
}

impl BlockDevice for SharedDisk {
    fn capacity(&self) -> Sectors {
        self.get().capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.get_mut().submit(at, request)
    }
}
