//! `inventory-service openapi`, `completions` and `man`: print the description of the interface and that of the commands.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::output::stdout;
use super::{CommandLine, Outcome};
use crate::http::openapi;

/// Which description is printed.
#[derive(Debug, Args)]
pub struct OpenapiCommand {
    /// The version of OpenAPI: 3.2 is what `/openapi.json` answers; in 3.1 the method QUERY stands under `x-query`.
    #[arg(long = "for", value_name = "VERSION", default_value = "3.2")]
    version: OpenapiVersion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OpenapiVersion {
    #[value(name = "3.1")]
    V31,
    #[value(name = "3.2")]
    V32,
}

impl OpenapiCommand {
    /// Prints the description, with indentation.
    ///
    /// # Errors
    /// When the output is closed.
    pub(super) fn run(&self) -> Outcome {
        let document = match self.version {
            OpenapiVersion::V31 => Cow::Owned(openapi::document_for_3_1()),
            OpenapiVersion::V32 => Cow::Borrowed(openapi::document()),
        };
        let mut out = BufWriter::new(stdout());
        serde_json::to_writer_pretty(&mut out, &*document).map_err(io::Error::from)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

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
