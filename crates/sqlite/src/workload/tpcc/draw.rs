//! What a terminal enters: warehouses, customers, items.

use block::Rng;
use workload::generate::tpcc::{NuRand, last_name};

use super::scale::Scale;

/// Draws inputs of transactions.
#[derive(Clone, Debug)]
pub struct Draw {
    pub scale: Scale,
    pub rng: Rng,
    pub nurand: NuRand,
}

/// How a transaction names its customer.
#[derive(Clone, Debug)]
pub enum Customer {
    Number(u64),
    LastName(String),
}

impl Draw {
    pub fn warehouse(&mut self) -> u64 {
        self.rng.between(1, self.scale.warehouses)
    }

    /// A warehouse that is not `w`, if there is one.
    pub fn other_warehouse(&mut self, w: u64) -> u64 {
        if self.scale.warehouses == 1 {
            return w;
        }
        let other = self.rng.between(1, self.scale.warehouses - 1);
        other + u64::from(other >= w)
    }

    pub fn district(&mut self) -> u64 {
        self.rng.between(1, self.scale.districts)
    }

    pub fn customer(&mut self) -> u64 {
        self.nurand.customer(self.scale.customers, &mut self.rng)
    }

    pub fn item(&mut self) -> u64 {
        self.nurand.item(self.scale.items, &mut self.rng)
    }

    /// An item that does not exist.
    pub fn no_item(&self) -> u64 {
        self.scale.items + 1
    }

    /// By last name in 60 of 100 cases. A reduced database has the first names only.
    pub fn named_customer(&mut self) -> Customer {
        if self.rng.ratio(60, 100) {
            let names = self.scale.customers.min(1000);
            let number = self.nurand.last_name(&mut self.rng) % names;
            Customer::LastName(last_name(number))
        } else {
            Customer::Number(self.customer())
        }
    }
}
