//! The Diffie-Hellman groups that are offered: none, and ffdhe2048 of RFC 7919.
//!
//! A secret exponent is used once, and raised to in a time that does not depend on it. One of 256 bits is as strong as
//! the group (RFC 7919, appendix A.1 asks for 225).

use std::fmt;
use std::io;

use crypto_bigint::modular::ConstMontyParams;
use crypto_bigint::{U256, U2048, const_monty_form, const_monty_params};

use super::Random;

// RFC 7919, appendix A.1: a safe prime, and 2 generates the squares.
const_monty_params!(
    Prime,
    U2048,
    "FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695\
     A9E13641146433FBCC939DCE249B3EF97D2FE363630C75D8F681B202AEC4617A\
     D3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935\
     984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797A\
     BC0AB182B324FB61D108A94BB2C8E3FBB96ADAB760D7F4681D4F42A3DE394DF4\
     AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F61\
     9172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005\
     C58EF1837D1683B2C6F34A26C1B2EFFA886B423861285C97FFFFFFFFFFFFFFFF",
    "The prime of ffdhe2048."
);
const_monty_form!(Element, Prime);

/// Bytes of a number of ffdhe2048.
const BYTES: usize = 256;

/// A group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// None: responses are of secrets and challenges alone.
    Null,
    /// ffdhe2048.
    Ffdhe2048,
}

impl Group {
    /// All of them, the weaker one first.
    pub const ALL: [Group; 2] = [Group::Null, Group::Ffdhe2048];

    /// As messages name it.
    pub fn id(self) -> u8 {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 1,
        }
    }

    /// The one that a message names.
    pub fn of_id(id: u8) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.id() == id)
    }
}

/// A secret exponent, and what may be told of it.
pub struct Pair {
    exponent: Option<U256>,
    public: Vec<u8>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("public", &self.public.len()).finish_non_exhaustive()
    }
}

impl Pair {
    /// Draws one; of no group there is nothing to draw.
    ///
    /// # Errors
    /// There are no random bytes.
    pub fn draw(group: Group, random: Random<'_>) -> io::Result<Pair> {
        match group {
            Group::Null => Ok(Pair { exponent: None, public: Vec::new() }),
            Group::Ffdhe2048 => {
                let mut bytes = [0; 32];
                random(&mut bytes)?;
                // As long as it is said to be.
                bytes[0] |= 0x80;
                let exponent = U256::from_be_slice(&bytes);
                let public = raised(&U2048::from(2u8), &exponent);
                Ok(Pair { exponent: Some(exponent), public })
            }
        }
    }

    /// What the other side is told; empty without a group.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// What both know and nobody else, by what the other side told; empty without a group. `None`: that is no number of the
    /// group that a key may be made of.
    pub fn shared(&self, other: &[u8]) -> Option<Vec<u8>> {
        let Some(exponent) = &self.exponent else { return other.is_empty().then(Vec::new) };
        if other.is_empty() || other.len() > BYTES {
            return None;
        }
        // A number may come without the zeroes that it begins with.
        let mut whole = [0; BYTES];
        whole[BYTES - other.len()..].copy_from_slice(other);
        let number = U2048::from_be_slice(&whole);
        // RFC 7919, 5.1: from 2 to p - 2; the others give away what they are raised to.
        let most = prime().wrapping_sub(&U2048::from(2u8));
        (number >= U2048::from(2u8) && number <= most).then(|| raised(&number, exponent))
    }
}

fn prime() -> U2048 {
    *Element::MODULUS.as_ref()
}

fn raised(number: &U2048, exponent: &U256) -> Vec<u8> {
    Element::new(number).pow(exponent).retrieve().to_be_bytes().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn pair(step: u8, first: u8) -> Pair {
        let draw = &mut |into: &mut [u8]| {
            for (i, byte) in into.iter_mut().enumerate() {
                *byte = (i as u8).wrapping_mul(step).wrapping_add(first);
            }
            Ok(())
        };
        Pair::draw(Group::Ffdhe2048, draw).expect("drawn")
    }

    /// The prime is one, with a half that is one (to base 2; a wrong digit would not be), and 2 generates the squares.
    #[test]
    fn the_prime_is_that_of_the_group() {
        let less = prime().wrapping_sub(&U2048::ONE);
        let two = Element::new(&U2048::from(2u8));
        assert_eq!(two.pow_vartime(&less).retrieve(), U2048::ONE);
        assert_eq!(two.pow_vartime(&less.wrapping_shr_vartime(1)).retrieve(), U2048::ONE);
        assert!(
            hex(prime().to_be_bytes().as_ref()).starts_with("ffffffffffffffffadf85458a2bb4a9a")
        );
    }

    /// Numbers that `pow` of Python computed: 2^x, 2^y and 2^(xy), where byte i of x is 7 i + 200, of y 11 i + 3, and the
    /// highest bit is set.
    #[test]
    fn keys_are_those_that_python_computes() {
        let (x, y) = (pair(7, 200), pair(11, 3));
        assert_eq!(hex(x.public()), include_str!("vectors/x.txt").replace('\n', ""));
        assert_eq!(hex(y.public()), include_str!("vectors/y.txt").replace('\n', ""));
        let shared = include_str!("vectors/xy.txt").replace('\n', "");
        assert_eq!(x.shared(y.public()).map(|key| hex(&key)).as_deref(), Some(shared.as_str()));
        assert_eq!(y.shared(x.public()).map(|key| hex(&key)).as_deref(), Some(shared.as_str()));
    }

    #[test]
    fn a_number_that_gives_a_key_away_is_refused() {
        let own = pair(7, 200);
        let less = |by: u8| prime().wrapping_sub(&U2048::from(by)).to_be_bytes().as_ref().to_vec();
        for weak in [vec![], vec![0], vec![1], less(1), less(0), vec![0xff; 256], vec![2; 257]] {
            assert_eq!(own.shared(&weak), None, "{} bytes", weak.len());
        }
        // 2 is in the group, however many zeroes it comes with.
        let (short, mut long) = (vec![2], vec![0; 256]);
        long[255] = 2;
        assert_eq!(own.shared(&short).as_deref(), Some(own.public()));
        assert_eq!(own.shared(&long), own.shared(&short));
        assert!(own.shared(&less(2)).is_some());
    }

    #[test]
    fn without_a_group_there_is_nothing_to_share() {
        let none = Pair::draw(Group::Null, &mut |_| panic!("nothing is drawn")).expect("drawn");
        assert!(none.public().is_empty());
        assert_eq!(none.shared(&[]), Some(Vec::new()));
        assert_eq!(none.shared(&[5]), None);
    }
}
