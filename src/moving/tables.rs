//! The objects of each type as a table in a package, for spreadsheets: `objects/<type>.csv`. An import ignores the tables.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use futures::TryStreamExt;

use crate::domain::schema::is_kebab_case;
use crate::exchange::csv::CsvStyle;
use crate::exchange::discovery::HostFields;
use crate::query::{Filter, Sort};
use crate::service::exchange::export::{ExportAccess, ExportForm, ExportQuery, export_objects};
use crate::service::{ServiceError, Services};
use crate::store::StoreError;

use super::MovingError;

/// Where the tables are in a package.
pub const DIRECTORY: &str = "objects";

/// Tables that are to be written, and how.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// The use cases that write them.
    pub services: &'a Services,
    /// How they are written.
    pub style: CsvStyle,
}

impl Tables<'_> {
    /// Writes a table for each type into the directory of a package.
    pub(super) async fn write(self, package: &Path) -> Result<(), MovingError> {
        let Self { services, style } = self;
        let directory = package.join(DIRECTORY);
        DirBuilder::new().mode(0o700).create(&directory).map_err(MovingError::at(&directory))?;
        let types = services.types.current(&*services.store, services.max_time).await.map_err(MovingError::Table)?;
        let mut names: Vec<(i64, String)> =
            types.iter().map(|entry| (entry.object_type.public_id, entry.object_type.name.clone())).collect();
        names.sort_unstable();
        for (id, name) in &names {
            // Other tools may have stored a type name that is invalid as a file name.
            let name = if is_kebab_case(name) { format!("{name}.csv") } else { format!("type-{id}.csv") };
            let path = directory.join(name);
            let query = ExportQuery {
                type_id: Some(*id),
                filter: Filter::all(),
                sort: Sort::by("public_id", false),
                form: ExportForm::Csv(style),
                hosts: HostFields::default(),
                all_columns: true,
            };
            let mut export =
                export_objects(services, ExportAccess::Operator, query).await.map_err(MovingError::Table)?;
            let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let mut file = open.map_err(MovingError::at(&path))?;
            while let Some(bytes) = export.bytes.try_next().await.map_err(MovingError::Table)? {
                let step = tokio::task::spawn_blocking(move || file.write_all(&bytes).map(|()| file)).await;
                file = joined(step)?.map_err(MovingError::at(&path))?;
            }
            let step = tokio::task::spawn_blocking(move || file.sync_all()).await;
            joined(step)?.map_err(MovingError::at(&path))?;
        }
        Ok(())
    }
}

fn joined<T>(step: Result<io::Result<T>, tokio::task::JoinError>) -> Result<io::Result<T>, MovingError> {
    step.map_err(|error| MovingError::Table(ServiceError::Store(StoreError::backend(error))))
}
