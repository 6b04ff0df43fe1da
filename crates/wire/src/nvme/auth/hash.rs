//! The hash functions of DH-HMAC-CHAP.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// SHA-2 of some length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// 32 bytes.
    Sha256,
    /// 48 bytes.
    Sha384,
    /// 64 bytes.
    Sha512,
}

impl Hash {
    /// All of them.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// As messages name it.
    pub fn id(self) -> u8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
            Hash::Sha512 => 3,
        }
    }

    /// The one that a message names.
    pub fn of_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Bytes of its result.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// The hash of some bytes.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(bytes).to_vec(),
            Hash::Sha384 => Sha384::digest(bytes).to_vec(),
            Hash::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// HMAC over the parts, one behind the other.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha256 => taken::<Hmac<Sha256>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha384 => taken::<Hmac<Sha384>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha512 => taken::<Hmac<Sha512>>(key, parts).finalize().into_bytes().to_vec(),
        }
    }

    /// Whether that is `found`, in a time that does not depend on where it differs.
    pub fn is_hmac(self, key: &[u8], parts: &[&[u8]], found: &[u8]) -> bool {
        match self {
            Hash::Sha256 => taken::<Hmac<Sha256>>(key, parts).verify_slice(found).is_ok(),
            Hash::Sha384 => taken::<Hmac<Sha384>>(key, parts).verify_slice(found).is_ok(),
            Hash::Sha512 => taken::<Hmac<Sha512>>(key, parts).verify_slice(found).is_ok(),
        }
    }
}

fn taken<M: Mac + hmac::digest::KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mac = <M as hmac::digest::KeyInit>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
        (0..text.len()).step_by(2).map(pair).collect()
    }

    /// RFC 4231: test cases 2 (a short key) and 6 (one longer than a block).
    #[test]
    fn hmac_is_that_of_rfc_4231() {
        let long = [0xaa; 131];
        let cases: [(&[u8], &[u8], [&str; 3]); 2] = [
            (
                b"Jefe",
                b"what do ya want for nothing?",
                [
                    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
                    "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
                    "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
                ],
            ),
            (
                &long,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                [
                    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
                    "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c60c2ef6ab4030fe8296248df163f44952",
                    "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
                ],
            ),
        ];
        for (key, text, expected) in cases {
            for (hash, expected) in Hash::ALL.into_iter().zip(expected) {
                let (first, rest) = text.split_at(7);
                let found = hash.hmac(key, &[first, rest]);
                assert_eq!(found, hex(expected), "{hash:?}");
                assert_eq!(found.len(), hash.bytes());
                assert!(hash.is_hmac(key, &[text], &found));
                for at in 0..found.len() {
                    let mut other = found.clone();
                    other[at] ^= 0x10;
                    assert!(!hash.is_hmac(key, &[text], &other), "{hash:?}: byte {at}");
                }
                assert!(!hash.is_hmac(key, &[text], &found[..found.len() - 1]), "{hash:?}: short");
            }
        }
    }

    #[test]
    fn a_hash_has_one_name() {
        for hash in Hash::ALL {
            assert_eq!(Hash::of_id(hash.id()), Some(hash));
        }
        assert_eq!([0, 4, 255].map(Hash::of_id), [None; 3]);
    }
}
