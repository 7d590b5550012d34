//! Ends a process and all processes that it started. Otherwise, the browsers and servers of a test would continue to
//! run after it was killed.

use std::process::Command;

use crate::command;

/// Kills the process with this id and all its descendants. Processes that have ended already are skipped.
pub fn kill(id: u32) {
    let table = command::output(Command::new("ps").args(["-A", "-o", "pid=,ppid="])).unwrap_or_default();
    let mut kill = Command::new("kill");
    kill.arg("-KILL").args(tree(&table, id).iter().map(u32::to_string));
    command::output(&mut kill).ok(); // one of them may have ended
}

/// The process and its descendants, from a table of ids and those of the parents.
fn tree(table: &str, root: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = table
        .lines()
        .filter_map(|line| {
            let mut ids = line.split_whitespace().map(str::parse);
            Some((ids.next()?.ok()?, ids.next()?.ok()?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(pairs.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0));
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{kill, tree};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn finds_descendants_only() {
        let table = "    1     0\n   10     1\n   11    10\n   12    11\n   13     1\n   14    10\n";
        assert_eq!(tree(table, 10), [10, 11, 14, 12]);
    }

    #[cfg(unix)]
    #[test]
    fn kills_what_a_process_started() {
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 100 & echo; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap(); // now the second process exists
        kill(shell.id());
        assert!(!shell.wait().unwrap().success());
        // The second process has the other end of the pipe, which is closed when it ends.
        assert_eq!(output.read_line(&mut String::new()).unwrap(), 0);
    }
}
