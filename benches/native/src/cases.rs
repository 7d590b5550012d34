//! The cases and their goals.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{self, Run};

/// A command of the command line, and the baseline that it is compared with.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) against: Baseline,
    /// The ratio of the time to that of the baseline.
    pub(crate) goal: f64,
    pub(crate) peak_goal_mib: Option<f64>,
    program: PathBuf,
    /// Before the measurement: the arguments of the command line that write the input, and the input.
    prepare: Option<Vec<String>>,
    input: PathBuf,
    arguments: Vec<String>,
    /// What the command writes, and its baseline.
    output: Option<[PathBuf; 2]>,
}

/// A command that reads the input; with an output, it copies it.
pub(crate) struct Baseline {
    pub(crate) name: &'static str,
    options: &'static [&'static str],
}

pub(crate) struct Measured {
    pub(crate) ratio: f64,
    pub(crate) seconds: f64,
    pub(crate) baseline_seconds: f64,
    pub(crate) peak_mib: f64,
}

/// All cases, for a model in SafeTensors.
pub(crate) fn all(program: &Path, folder: &Path, model: &Path) -> impl Iterator<Item = Case> {
    let text = |path: &Path| path.display().to_string();
    let verify = {
        let (program, folder, model) = (program.to_owned(), folder.to_owned(), model.to_owned());
        move |name, file: &str, options: &[&str], against, goal| {
            let input = folder.join(file);
            let options = options.iter().map(|option| (*option).to_owned());
            let prepare = ["convert".to_owned(), text(&model), text(&input)].into_iter().chain(options).collect();
            let arguments = vec!["verify".to_owned(), text(&input)];
            let program = program.clone();
            let against = Baseline { name: against, options: &[] };
            Case {
                name,
                against,
                goal,
                peak_goal_mib: None,
                program,
                prepare: Some(prepare),
                input,
                arguments,
                output: None,
            }
        }
    };
    let convert = {
        let (program, folder, model) = (program.to_owned(), folder.to_owned(), model.to_owned());
        move |name, options: &[&str], goal| {
            let output = ["ours.apr", "copy"].map(|name| folder.join(name));
            let options = options.iter().map(|option| (*option).to_owned());
            let [ours, _] = &output;
            let arguments = ["convert".to_owned(), text(&model), text(ours)].into_iter().chain(options).collect();
            let (program, input) = (program.clone(), model.clone());
            let against = Baseline { name: "cp", options: &["--reflink=never"] };
            let peak_goal_mib = Some(64.0);
            Case { name, against, goal, peak_goal_mib, program, prepare: None, input, arguments, output: Some(output) }
        }
    };
    // AERO always has a digest of all weights, and may have digests of tensors.
    [
        verify("verify BLAKE3", "blake3.aero", &["--digest", "none"], "b3sum", 1.1),
        verify("verify BLAKE3, two digests", "two.aero", &["--digest", "blake3"], "b3sum", 1.1),
        verify("verify SHA-256", "sha256.zt", &["--digest", "sha256"], "sha256sum", 0.55),
        verify("verify CRC-32", "crc32.apr", &[], "cat", 1.3),
        convert("convert raw to raw", &[], 1.2),
        convert("convert raw to LZ4", &["--compress", "lz4"], 3.0),
        convert("convert raw to Q8_0", &["--dtype", "Q8_0"], 1.5),
    ]
    .into_iter()
}

impl Case {
    pub(crate) fn measure(&self, rounds: usize) -> Result<Measured> {
        if let Some(arguments) = &self.prepare {
            process::run(Command::new(&self.program).arg("--quiet").args(arguments))?;
        }
        self.warm_up()?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            if round.is_multiple_of(2) {
                ours.push(self.run()?);
                theirs.push(self.run_baseline()?);
            } else {
                theirs.push(self.run_baseline()?);
                ours.push(self.run()?);
            }
        }
        if self.prepare.is_some() {
            std::fs::remove_file(&self.input)?;
        }
        let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.seconds).collect());
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours.seconds / theirs.seconds).collect();
        let peak_bytes = ours.iter().map(|run| run.peak_bytes).max().unwrap_or_default();
        Ok(Measured {
            ratio: median(ratios).context("no round was measured")?,
            seconds: seconds(&ours).context("no round was measured")?,
            baseline_seconds: seconds(&theirs).context("no round was measured")?,
            peak_mib: peak_bytes as f64 / f64::from(1 << 20),
        })
    }

    /// Brings the input into the page cache.
    fn warm_up(&self) -> Result<()> {
        process::run(Command::new("cat").arg(&self.input)).map(drop)
    }

    fn run(&self) -> Result<Run> {
        let mut command = Command::new(&self.program);
        self.until_written(command.arg("--quiet").args(&self.arguments), 0)
    }

    fn run_baseline(&self) -> Result<Run> {
        let Baseline { name, options } = self.against;
        let mut command = Command::new(name);
        command.args(options).arg(&self.input).args(self.output.iter().map(|[_, copy]| copy));
        self.until_written(&mut command, 1)
    }

    /// Runs a command until its output is on the disk, and deletes the output.
    fn until_written(&self, command: &mut Command, which: usize) -> Result<Run> {
        let start = Instant::now();
        let run = process::run(command)?;
        let Some(output) = self.output.as_ref().and_then(|outputs| outputs.get(which)) else { return Ok(run) };
        File::open(output)?.sync_all()?;
        let seconds = start.elapsed().as_secs_f64();
        std::fs::remove_file(output)?;
        Ok(Run { seconds, ..run })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
