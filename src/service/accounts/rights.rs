//! The catalogue of rights as documents, so that filters and sorts work as everywhere.

use std::sync::LazyLock;
use std::time::Instant;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::directory::Caller;
use crate::admission::{self, Means};
use crate::auth::rights::{self, RightNode, Rights};
use crate::domain::document::raw;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::queries::kinds;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::Listed;
use crate::service::services::Services;
use crate::store::{Explanation, FindQuery, Page, Step, StoreError, evaluate};

static CATALOGUE: LazyLock<Vec<RawDocumentBuf>> =
    LazyLock::new(|| rights::catalogue().iter().map(|right| raw(&kinds::right(right))).collect());

/// One page of the catalogue, or the explanation of its query. A filter with expressions runs as admitted work, because
/// it may take its whole time budget.
///
/// # Errors
/// As [`Store::page`](crate::store::Store::page).
pub async fn list_rights(services: &Services, query: ListQuery) -> Result<Listed, ServiceError> {
    let started = Instant::now();
    // A right is shown whole.
    let question = FindQuery { projection: None, ..query.to_find(services) };
    let page = admission::work_if(question.filter.tree().is_costly(), move |means: &Means| page_of(&question, means));
    let page = page.await??;
    if !query.explain {
        return Ok(Listed::Page(page));
    }
    Ok(Listed::Explained(Explanation {
        keys_examined: Some(0),
        documents_examined: Some(CATALOGUE.len() as u64),
        time_us: u64::try_from(started.elapsed().as_micros()).ok(),
        ..Explanation::in_memory(services.store.kind(), Step::Memory, (page.documents.len() as u64, page.total))
    }))
}

fn page_of(query: &FindQuery, means: &Means) -> Result<Page, StoreError> {
    evaluate::page_of(CATALOGUE.iter().map(|right| &**right), query, means)
}

/// The right with this name.
///
/// # Errors
/// [`ErrorCode::RightNotFound`].
pub fn get_right(name: &str) -> Result<&'static RawDocument, ServiceError> {
    let found = CATALOGUE.iter().find(|right| right.get_str("name").is_ok_and(|known| known == name));
    found.map(|right| &**right).ok_or_else(|| ServiceError::not_found(ErrorCode::RightNotFound, name))
}

/// The catalogue as nested lists, see [`rights::tree`].
pub fn right_tree() -> Vec<RightNode> {
    rights::tree()
}

/// Refuses to grant rights that the caller does not hold.
///
/// # Errors
/// [`ErrorCode::RightsExceeded`] naming them.
pub fn may_give<'a>(caller: &Caller, given: impl IntoIterator<Item = &'a str>, what: &str) -> Result<(), ServiceError> {
    let missing = caller.rights.missing(given);
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("{what} rights that you do not hold: {}", missing.join(", "));
    Err(ServiceError::refused(ErrorCode::RightsExceeded, message))
}

/// Refuses a right that the caller lacks.
///
/// # Errors
/// [`ErrorCode::RightMissing`] naming it.
pub fn require(rights: &Rights, right: &str) -> Result<(), ServiceError> {
    if rights.grants(right) {
        return Ok(());
    }
    let lacking = if rights.is_withheld(right) {
        "your group holds, but this token was made without it"
    } else {
        "your group does not hold"
    };
    let message = format!("this needs the right {right}, which {lacking}");
    Err(ServiceError::refused(ErrorCode::RightMissing, message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Document, doc};

    use super::*;
    use crate::query::{Filter, Limits, Sort};

    fn names(filter: &Document, sort: Sort, page: u64) -> (Vec<String>, u64) {
        let filter = Filter::parse(filter, &Limits::NONE).expect("a filter");
        let query = FindQuery::new(filter, Duration::from_secs(10)).sorted(sort).limited(10);
        let query = FindQuery { skip: (page - 1) * 10, ..query };
        let found = page_of(&query, &Means::default()).expect("a page");
        let names = found.documents.iter().map(|right| right.get_str("name").expect("a name").to_owned());
        (names.collect(), found.total)
    }

    #[test]
    fn the_catalogue_is_paged_and_sorted_like_any_list() {
        let (first, total) = names(&doc! {}, Sort::by("name", false), 1);
        assert_eq!((first.len(), total, first[0].as_str()), (10, 62, "base.*"));
        let (last, _) = names(&doc! {}, Sort::by("name", false), 7);
        assert_eq!(last.len(), 2);
        let (gravest, _) = names(&doc! {}, Sort::by("level", true).then("name", false), 1);
        assert_eq!(gravest[0], "base.exportd.log.delete");
    }

    #[test]
    fn the_catalogue_is_filtered_like_any_list() {
        let (masters, total) =
            names(&doc! {"is_master": true, "name": {"$regex": "^base.framework"}}, Sort::by("name", false), 1);
        assert_eq!((masters.len() as u64, total), (5, 5));
    }

    #[test]
    fn a_group_is_shown_with_records_also_for_names_that_are_gone() {
        let stored = raw(&doc! {"name": "a", "rights": ["base.system.view", "base.gone"]});
        let shown = Document::try_from(&*kinds::group(&stored)).expect("a document");
        let records = shown.get_array("rights").expect("rights");
        assert_eq!(records[0].as_document().and_then(|it| it.get_str("label").ok()), Some("system.view"));
        assert_eq!(records[1].as_document().and_then(|it| it.get_i32("level").ok()), Some(0));
    }
}
