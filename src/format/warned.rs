//! The names of tensors that a warning is about: the first ones, because a file may have 100,000.

/// The maximum number of names in a warning.
const MAX_NAMES: usize = 5;

/// The maximum length of a name in a warning.
const MAX_CHARACTERS: usize = 200;

/// The number of tensors that a warning is about, and the names of the first ones.
#[derive(Debug, Default)]
pub(crate) struct Warned {
    count: usize,
    first: Vec<String>,
}

impl Warned {
    /// Adds a tensor.
    pub(crate) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            self.first.push(shortened(name));
        }
    }

    /// Adds a tensor, and the reason for the warning.
    pub(crate) fn add_with_reason(&mut self, name: &str, reason: &str) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            self.first.push(format!("{} ({})", shortened(name), shortened(reason)));
        }
    }

    /// The warning, which begins with the names; `None` if there are none.
    pub(crate) fn warning(&self, what: &str) -> Option<String> {
        let more = self.count - self.first.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (self.count > 0).then(|| format!("{}{more}: {what}", self.first.join(", ")))
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_short() {
        let mut names = Warned::default();
        assert_eq!(names.warning("x"), None);
        (0..1000).for_each(|at| names.add(&at.to_string().repeat(10_000)));
        let warning = names.warning("are long").unwrap_or_default();
        assert!(warning.len() < 1200 && warning.ends_with(" and 995 more: are long"), "{warning}");
    }
}
