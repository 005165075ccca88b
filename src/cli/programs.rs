//! `inventory-service completions` and `inventory-service man`: the completions for shells, and the manual pages.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::output::stdout;
use super::{CommandLine, Outcome};

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "inventory-service", &mut script);
    Ok(stdout().write_all(&script)?)
}

/// Prints the manual page of the program, followed by those of its commands.
pub(super) fn man() -> Outcome {
    let mut program = CommandLine::command();
    program.build();
    let mut pages = Vec::new();
    clap_mangen::Man::new(program.clone()).render(&mut pages)?;
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let title = format!("inventory-service-{}", command.get_name());
        clap_mangen::Man::new(command.clone()).title(title).render(&mut pages)?;
    }
    Ok(stdout().write_all(&pages)?)
}
