//! Installs packages of Debian and its derivatives, for tools that no other registry has.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command;

/// Whether the package lists are up to date. The lock is held while apt runs, because it does not run concurrently.
static LISTS_ARE_FRESH: Mutex<bool> = Mutex::new(false);

/// The time limit of an apt command. A mirror can be slow, but one that does not respond must not block CI for hours.
const LIMIT: Duration = Duration::from_secs(900);

/// Installs packages, with `sudo` if the user is not root.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if command::in_path("apt-get").is_none() {
        bail!("apt-get not found; install the equivalents of these Debian packages manually: {list}");
    }
    update_and_install(packages).with_context(|| format!("install manually: apt-get install {list}"))
}

fn update_and_install(packages: &[&str]) -> Result<()> {
    let mut fresh = LISTS_ARE_FRESH.lock().ok().context("another apt-get run panicked")?;
    if !*fresh {
        apt_get(&["update"])?;
        *fresh = true;
    }
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt_get(args: &[&str]) -> Result<()> {
    let mut apt = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        // Fails instead of prompting for a password.
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    apt.args(["-q", "-o", "DPkg::Lock::Timeout=300"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command::quiet(&mut apt, LIMIT)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
