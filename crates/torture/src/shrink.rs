//! The smallest part of a set that still fails: delta debugging.

/// Takes things away as long as `fails` says yes of what is left; asks `most` times at most. What is left
/// fails, and none of its parts that were asked for does. `all` itself is known to fail.
pub fn smallest<T: Clone, E>(
    all: &[T],
    most: usize,
    fails: &mut dyn FnMut(&[T]) -> Result<bool, E>,
) -> Result<(Vec<T>, usize), E> {
    let (mut kept, mut parts, mut asked) = (all.to_vec(), 2, 0);
    while kept.len() >= 2 && asked < most {
        let size = kept.len().div_ceil(parts);
        let pieces: Vec<Vec<T>> = kept.chunks(size).map(<[T]>::to_vec).collect();
        let without = |number: usize| -> Vec<T> {
            let rest = pieces.iter().enumerate().filter(|(i, _)| *i != number);
            rest.flat_map(|(_, piece)| piece.clone()).collect()
        };
        let tried = pieces.len();
        let complements = (0..tried).filter(|_| tried > 2).map(without);
        let candidates: Vec<Vec<T>> = pieces.iter().cloned().chain(complements).collect();
        let mut found = None;
        for (number, candidate) in candidates.into_iter().enumerate() {
            if asked == most {
                break;
            }
            asked += 1;
            if fails(&candidate)? {
                found = Some((number, candidate));
                break;
            }
        }
        match found {
            Some((number, candidate)) => {
                parts = if number < tried { 2 } else { (parts - 1).max(2) };
                kept = candidate;
            }
            None if parts >= kept.len() => break,
            None => parts = (parts * 2).min(kept.len()),
        }
    }
    Ok((kept, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: u32, needed: &[u32], most: usize) -> (Vec<u32>, usize) {
        let all: Vec<u32> = (0..all).collect();
        let mut fails = |part: &[u32]| Ok::<_, ()>(needed.iter().all(|n| part.contains(n)));
        smallest(&all, most, &mut fails).unwrap()
    }

    #[test]
    fn what_is_needed_is_found_and_nothing_else() {
        for needed in [&[0][..], &[99], &[3, 97], &[10, 11, 12, 50]] {
            let (kept, asked) = found(100, needed, 1000);
            assert_eq!(kept, needed);
            assert!(asked < 120, "{asked}");
        }
        assert_eq!(found(1, &[0], 9).0, [0]);
    }

    #[test]
    fn it_stops_when_it_has_asked_enough() {
        let (kept, asked) = found(100, &[3, 97], 5);
        assert_eq!(asked, 5);
        assert!(kept.contains(&3) && kept.contains(&97));
    }
}
