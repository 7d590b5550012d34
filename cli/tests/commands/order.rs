//! `convert --order`.

use super::Folder;
use super::bytes::{noise, safetensors};
use std::process::Command;

/// Runs `convert m.safetensors` with these arguments. Returns the names in file order, or the standard error.
fn names(folder: &Folder, order: &str) -> Result<String, String> {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
        let output = command.args(arguments).current_dir(folder.0.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    };
    run(&["convert", "m.safetensors", "out.safetensors", "--force", order])?;
    let json: serde_json::Value = serde_json::from_str(&run(&["inspect", "--json", "out.safetensors"])?).unwrap();
    let names = json["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap());
    Ok(names.collect::<Vec<_>>().join(" "))
}

#[test]
fn tensors_are_laid_out_by_layers_or_by_a_file_of_names() {
    let folder = Folder::new();
    let tensor = |name, seed| (name, "U8", &[8][..], noise(seed, 8));
    let tensors = [tensor("head", 1), tensor("layers.1.w", 2), tensor("layers.0.w", 3), tensor("embed", 4)];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    assert_eq!(names(&folder, "--order").unwrap(), "embed layers.0.w layers.1.w head");
    assert_eq!(names(&folder, "--order=layers").unwrap(), "embed layers.0.w layers.1.w head");
    assert_eq!(names(&folder, "--order=source").unwrap(), "head layers.1.w layers.0.w embed");
    folder.write("order.txt", b"layers.0.w\r\n\nhead\n");
    assert_eq!(names(&folder, "--order=order.txt").unwrap(), "layers.0.w head layers.1.w embed");

    folder.write("order.txt", b"layers.7.w\n");
    let error = names(&folder, "--order=order.txt").unwrap_err();
    assert!(error.contains("layers.7.w") && error.contains("a tensor that is not written"), "{error}");
    let error = names(&folder, "--order=missing.txt").unwrap_err();
    assert!(error.contains("missing.txt"), "{error}");
}
