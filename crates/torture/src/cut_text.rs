//! What survives a cut, as a text: `worst`, `all`, `seed:7`, `keep:4096:1,4097:2`, `lying:12`.

use crate::states::Left;

/// As a text.
pub fn left_text(left: &Left) -> String {
    match left {
        Left::Worst => "worst".to_string(),
        Left::All => "all".to_string(),
        Left::Seed(seed) => format!("seed:{seed}"),
        Left::Keep(kept) => {
            let kept: Vec<String> =
                kept.iter().map(|(block, version)| format!("{block}:{version}")).collect();
            format!("keep:{}", kept.join(","))
        }
        Left::Lying(since) => format!("lying:{since}"),
    }
}

/// Of a text; nothing if it is none.
pub fn left_of(text: &str) -> Option<Left> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "worst" if rest.is_empty() => Some(Left::Worst),
        "all" if rest.is_empty() => Some(Left::All),
        "seed" => rest.parse().ok().map(Left::Seed),
        "lying" => rest.parse().ok().map(Left::Lying),
        "keep" => {
            let pair = |word: &str| {
                let (block, version) = word.split_once(':')?;
                Some((block.parse().ok()?, version.parse().ok()?))
            };
            let words = rest.split(',').filter(|word| !word.is_empty());
            words.map(pair).collect::<Option<_>>().map(Left::Keep)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for left in [
            Left::Worst,
            Left::All,
            Left::Seed(u64::MAX),
            Left::Keep(Vec::new()),
            Left::Keep(vec![(1, 2), (3, 1)]),
            Left::Lying(9),
        ] {
            assert_eq!(left_of(&left_text(&left)), Some(left));
        }
        for wrong in ["", "worst:1", "seed:x", "keep:1", "keep:1:2:3", "lying:"] {
            assert_eq!(left_of(wrong), None, "{wrong}");
        }
    }
}
