//! Division of 32-bit numbers by a number fixed at construction, without a divide instruction.

/// Divides by a constant known only at run time: one multiplication (Lemire, Kaser and Kurz,
/// "Faster remainder by direct computation", 2019). Exact for every `u32`.
#[derive(Clone, Copy, Debug)]
pub struct Divider {
    magic: u64,
    by: u32,
}

impl Divider {
    /// A divider by `by`, which is at least 1.
    pub const fn new(by: u32) -> Divider {
        assert!(by > 0, "division by zero");
        Divider { magic: if by == 1 { 0 } else { u64::MAX / by as u64 + 1 }, by }
    }
    /// `n / by`.
    #[inline(always)]
    pub const fn div(&self, n: u32) -> u32 {
        if self.by == 1 {
            return n;
        }
        ((self.magic as u128 * n as u128) >> 64) as u32
    }
    /// `(n / by, n % by)`.
    #[inline(always)]
    pub const fn div_rem(&self, n: u32) -> (u32, u32) {
        let q = self.div(n);
        (q, n - q * self.by)
    }
    /// The divisor.
    pub const fn by(&self) -> u32 {
        self.by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_machine_division() {
        let mut rng = crate::Rng::new(1);
        let edges = [0, 1, 2, 3, 7, 255, 256, 257, u32::MAX - 1, u32::MAX];
        for by in (1..2000).chain(edges.into_iter().filter(|n| *n > 0)) {
            let d = Divider::new(by);
            for n in edges.into_iter().chain((0..50).map(|_| rng.next_u64() as u32)) {
                assert_eq!(d.div_rem(n), (n / by, n % by), "{n} / {by}");
            }
        }
    }
}
