//! Arguments by hand: `--name value` and `--name`.

/// What is left of a command line.
pub struct Args {
    rest: Vec<String>,
}

impl Args {
    /// The arguments behind the command's name.
    pub fn new(rest: Vec<String>) -> Args {
        Args { rest }
    }

    /// Takes `--name value`; the last one wins.
    ///
    /// # Errors
    /// The value is missing.
    pub fn value(&mut self, name: &str) -> Result<Option<String>, String> {
        Ok(self.values(name)?.pop())
    }

    /// Takes every `--name value`, in order.
    ///
    /// # Errors
    /// A value is missing.
    pub fn values(&mut self, name: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        while let Some(i) = self.position(name) {
            if i + 1 >= self.rest.len() {
                return Err(format!("--{name}: expected a value"));
            }
            found.extend(self.rest.drain(i..i + 2).nth(1));
        }
        Ok(found)
    }

    /// Takes `--name value`, which must be there.
    ///
    /// # Errors
    /// It is not.
    pub fn required(&mut self, name: &str) -> Result<String, String> {
        self.value(name)?.ok_or_else(|| format!("--{name} is required"))
    }

    /// Takes `--name N`.
    ///
    /// # Errors
    /// The value is no whole number.
    pub fn number(&mut self, name: &str, default: u64) -> Result<u64, String> {
        match self.value(name)? {
            None => Ok(default),
            Some(text) => text
                .replace('_', "")
                .parse()
                .map_err(|_| format!("--{name} {text}: expected a whole number")),
        }
    }

    /// Takes `--name`.
    pub fn flag(&mut self, name: &str) -> bool {
        match self.position(name) {
            Some(i) => {
                self.rest.remove(i);
                true
            }
            None => false,
        }
    }

    /// Ends the parsing.
    ///
    /// # Errors
    /// Something nobody took.
    pub fn finish(self) -> Result<(), String> {
        match self.rest.first() {
            Some(other) => Err(format!("unknown argument `{other}`")),
            None => Ok(()),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.rest.iter().position(|arg| arg.strip_prefix("--") == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(text: &str) -> Args {
        Args::new(text.split_whitespace().map(str::to_string).collect())
    }

    #[test]
    fn values_are_taken_in_order_and_the_last_counts() {
        let mut a = args("--set a=1 --n 5 --fold --set b=2 --n 1_000");
        assert_eq!(a.values("set"), Ok(vec!["a=1".to_string(), "b=2".to_string()]));
        assert_eq!(a.number("n", 7), Ok(1000));
        assert_eq!(a.number("m", 7), Ok(7));
        assert!(a.flag("fold") && !a.flag("fold"));
        assert_eq!(a.finish(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(args("--n").number("n", 0).is_err_and(|e| e.contains("--n")));
        assert!(args("--n x").number("n", 0).is_err_and(|e| e.contains("--n x")));
        assert!(args("--n 1").required("out").is_err_and(|e| e.contains("--out")));
        assert!(args("--typo").finish().is_err_and(|e| e.contains("--typo")));
    }
}
