//! Whose request the drive takes next where several applications wait for a place: weighted round robin over a
//! queue for each (NVM Express Base Specification 2.0, 3.4.4: the weight is the number of commands that are taken
//! from a queue before the next one has its turn).
//!
//! Without shares there is one queue, in the order of arrival.

/// The weights of applications, by their numbers; all others have 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares(Vec<u32>);

/// As it is written where there is one queue for all.
pub const ONE_QUEUE: &str = "fifo";

impl Shares {
    /// `A:B=3:1`: three commands of A for each one of B, of these applications. `None`: one queue for all.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn parse(text: &str, names: &[String]) -> Result<Option<Shares>, String> {
        if text.trim() == ONE_QUEUE {
            return Ok(None);
        }
        if names.len() < 2 {
            let what = "one application has no other to share with";
            return Err(format!("share `{text}`: {what}: expected {ONE_QUEUE}"));
        }
        let expected = || {
            let names = names.join(", ");
            format!(
                "share `{text}`: expected {ONE_QUEUE}, or `A:B=3:1` with some of {names} and as many whole numbers above 0"
            )
        };
        let (apps, weights) = text.split_once('=').ok_or_else(expected)?;
        let apps: Vec<&str> = apps.split(':').map(str::trim).collect();
        let weights: Vec<&str> = weights.split(':').map(str::trim).collect();
        if apps.len() != weights.len() {
            return Err(expected());
        }
        let mut all = vec![None; names.len()];
        for (app, weight) in apps.iter().zip(weights) {
            let number = names.iter().position(|name| name == app).ok_or_else(expected)?;
            let weight = weight.parse().ok().filter(|weight| *weight > 0).ok_or_else(expected)?;
            if all[number].replace(weight).is_some() {
                return Err(format!("share `{text}`: {app} is there twice"));
            }
        }
        Ok(Some(Shares(all.into_iter().map(|weight| weight.unwrap_or(1)).collect())))
    }

    /// Applications that are known.
    pub(super) fn apps(&self) -> usize {
        self.0.len()
    }

    fn of(&self, app: usize) -> u32 {
        self.0.get(app).copied().unwrap_or(1)
    }
}

/// Round robin over the queues.
#[derive(Debug)]
pub(super) struct Turns {
    shares: Shares,
    /// Whose turn it is.
    app: usize,
    /// Commands that are left of the turn.
    left: u32,
}

impl Turns {
    /// The first application begins.
    pub(super) fn new(shares: &Shares) -> Turns {
        Turns { shares: shares.clone(), app: 0, left: shares.of(0) }
    }

    /// Applications that take part.
    pub(super) fn apps(&self) -> usize {
        self.shares.apps()
    }

    /// The next of `apps` applications of which `waits` is true. What is left of a turn is lost with the first command
    /// that another one takes.
    pub(super) fn next(&mut self, apps: usize, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let own = self.left > 0 && self.app < apps && waits(self.app);
        if !own {
            let mut others = (1..=apps).map(|step| (self.app + step) % apps);
            self.app = others.find(|app| waits(*app))?;
            self.left = self.shares.of(self.app);
        }
        self.left -= 1;
        Some(self.app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["A", "B", "C"].map(str::to_string).to_vec()
    }

    #[test]
    fn turns_go_round_by_weight() {
        let shares = Shares::parse("C:A=3:2", &names()).unwrap().unwrap();
        let mut turns = Turns::new(&shares);
        let all: Vec<_> = (0..12).map(|_| turns.next(3, |_| true).unwrap()).collect();
        assert_eq!(all, [0, 0, 1, 2, 2, 2, 0, 0, 1, 2, 2, 2]);
        // Who has nothing to send loses the rest of the turn, and one alone has all of them.
        assert_eq!(turns.next(3, |app| app != 0), Some(1));
        assert_eq!((0..5).map(|_| turns.next(3, |app| app == 2)).collect::<Vec<_>>(), [Some(2); 5]);
        assert_eq!(turns.next(3, |_| false), None);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        assert_eq!(Shares::parse("fifo", &[]), Ok(None));
        for (text, said) in [
            ("A:B=3", "expected fifo, or `A:B=3:1`"),
            ("A:D=3:1", "some of A, B, C"),
            ("A:B=3:0", "above 0"),
            ("A=x", "whole numbers"),
            ("A:A=1:2", "A is there twice"),
            ("3:1", "expected"),
        ] {
            let error = Shares::parse(text, &names()).unwrap_err();
            assert!(error.contains(said) && error.contains(text), "{error}");
        }
        assert!(
            Shares::parse("A=3", &names()[..1]).unwrap_err().contains("no other to share with")
        );
    }
}
