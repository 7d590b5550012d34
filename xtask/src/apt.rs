//! Packages of Debian and its children, for what no other registry carries.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command;

/// apt works for one caller at a time. Holds whether the package lists are up to date.
static LISTS_ARE_FRESH: Mutex<bool> = Mutex::new(false);

/// A mirror can be slow; one that answers nothing must not hang a build machine for hours.
const LIMIT: Duration = Duration::from_secs(900);

/// Installs packages, with `sudo` where we are not root.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if command::in_path("apt-get").is_none() {
        bail!("there is no apt-get here; install by hand what Debian calls {list}");
    }
    update_and_install(packages).with_context(|| format!("install by hand: apt-get install {list}"))
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
        // Nobody is there to type a password: fail at once.
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
