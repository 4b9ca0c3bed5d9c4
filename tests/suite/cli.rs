//! The built program from outside: help, exit codes, key files, broken pipes.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::tempdir;
use tracecloak::format::foreign::{exporter, importer};
use tracecloak::trace::vocab::{Keep, SourceFormat, Vocabulary};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracecloak"));
    // Nothing of the developer's own settings: neither flags nor the width of the terminal.
    command.env_clear().stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    program().current_dir(folder).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Exit code, stdout and stderr, as a snapshot shows them.
fn shown(output: &Output) -> String {
    format!(
        "exit {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// The subcommands, as `--help` lists them.
fn subcommands() -> Vec<String> {
    let help = run(&["--help"]);
    let list = text(&help.stdout).split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    list.lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_help_of_the_program_and_of_every_subcommand_is_as_accepted() {
    insta::assert_snapshot!("help", text(&run(&["--help"]).stdout));
    assert!(subcommands().contains(&"keygen".to_owned()));
    for name in subcommands() {
        let output = run(&[&name, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        insta::assert_snapshot!(format!("help_{name}"), text(&output.stdout));
    }
}

#[test]
fn wrong_arguments_fail_with_2_and_say_why_on_stderr() {
    let nothing_asked = run(&[]);
    assert_eq!((nothing_asked.status.code(), &nothing_asked.stderr), (Some(2), &run(&["--help"]).stdout));
    insta::assert_snapshot!("unknown_subcommand", shown(&run(&["frobnicate"])));
    insta::assert_snapshot!("unknown_flag", shown(&run(&["keygen", "--frobnicate", "key"])));
    insta::assert_snapshot!("no_key_file", shown(&run(&["keygen"])));
    insta::assert_snapshot!("no_such_manual", shown(&run(&["man", "frobnicate"])));
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(text(&run(&["--version"]).stdout), concat!("tracecloak ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn keygen_makes_a_key_that_only_its_owner_can_read() {
    let folder = tempdir().unwrap();
    assert_eq!(shown(&run_in(folder.path(), &["keygen", "key"])), "exit 0\n--- stdout\n--- stderr\n");
    let path = folder.path().join("key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let key = fs::read_to_string(&path).unwrap();
    assert_eq!(key.len(), 65);
    assert!(
        key.ends_with('\n') && key[..64].bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    );
}

#[test]
fn keygen_replaces_nothing_unless_forced() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "mine").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    insta::assert_snapshot!("key_exists", shown(&run_in(folder.path(), &["keygen", "key"])));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");

    assert_eq!(run_in(folder.path(), &["keygen", "key", "--force"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap().len(), 65);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn keygen_follows_no_link_that_somebody_laid() {
    let folder = tempdir().unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join("key")).unwrap();
    assert_eq!(run_in(folder.path(), &["keygen", "key"]).status.code(), Some(2));
    assert_eq!(run_in(folder.path(), &["keygen", "key", "--force"]).status.code(), Some(0));
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn keygen_writes_to_stdout_only_when_asked() {
    let output = run(&["keygen", "-"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 65));
    assert_ne!(output.stdout, run(&["keygen", "-"]).stdout, "two keys are equal");
}

#[test]
fn an_environment_variable_stands_in_for_a_flag() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("key"), "mine").unwrap();
    let forced = |value| {
        program().current_dir(folder.path()).env("TRACECLOAK_FORCE", value).args(["keygen", "key"]).output().unwrap()
    };
    assert_eq!(forced("0").status.code(), Some(2));
    assert_eq!(forced("1").status.code(), Some(0));
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    for arguments in [&["--help"][..], &["completions", "bash"], &["man"], &["keygen", "-"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = program().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    for arguments in [&["--help"][..], &["completions", "bash"], &["man"], &["keygen", "-"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = program().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).starts_with("tracecloak: "), "{arguments:?}");
    }
}

#[test]
fn every_shell_and_every_subcommand_has_its_page() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(text(&run(&["completions", shell]).stdout).contains("keygen"), "{shell}");
    }
    for name in subcommands() {
        assert!(text(&run(&["man", &name]).stdout).contains(".SH SYNOPSIS"), "{name}");
    }
}

#[test]
fn the_readme_names_every_subcommand_and_every_word_that_can_be_typed() {
    let readme = include_str!("../../README.md");
    for name in subcommands() {
        assert!(readme.contains(&format!("`{name} ")), "README.md: the table of commands lacks {name}");
    }
    let typed = |format: &&SourceFormat| {
        format.is_log() || importer(format.word()).is_some() || exporter(format.word()).is_some()
    };
    let formats = SourceFormat::ALL.iter().filter(typed).map(|format| format.word());
    for word in Keep::ALL.iter().map(|keep| keep.word()).chain(formats) {
        assert!(readme.contains(&format!("`{word}`")), "README.md: no table names {word}");
    }
}
