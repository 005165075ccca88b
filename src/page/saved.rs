//! Lists that a user keeps by name: the type and the question, in a setting of the user. docs/ui.md.

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::visitor::Visitor;
use crate::domain::document::number;
use crate::http::error::ApiError;
use crate::http::params::pairs;
use crate::page::address::{Address, of_type};
use crate::service::accounts::user_settings::{change_setting, create_setting, get_setting};
use crate::service::precondition::{IfMatch, entity_tag};
use crate::service::resource::{NewState, decode};
use crate::service::{ErrorCode, ServiceError};

/// The setting, and its member with the lists.
const SETTING: &str = "page";
const LISTS: &str = "lists";
/// How many lists a user keeps, and how long a name and a question are.
const MOST: usize = 100;
const LONGEST_NAME: usize = 100;
const LONGEST_QUERY: usize = 4096;

/// A list that a user keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedList {
    /// What the user calls it.
    pub name: String,
    /// The type.
    pub type_id: i64,
    /// What it asks for, as the query of its address.
    pub query: String,
}

impl SavedList {
    fn read(stored: &Bson) -> Option<Self> {
        let stored = stored.as_document()?;
        let text = |name: &str| stored.get_str(name).ok().map(str::to_owned);
        let type_id = stored.get("type_id").and_then(number);
        Some(Self { name: text("name")?, type_id: type_id?, query: text("query")? })
    }

    fn written(&self) -> Bson {
        doc! {"name": &self.name, "type_id": self.type_id, "query": &self.query}.into()
    }

    /// Its address.
    pub fn address(&self) -> String {
        Address::of(of_type(self.type_id), &pairs(&self.query).unwrap_or_default()).text()
    }
}

/// The lists that the visitor keeps, in the order of their names.
///
/// # Errors
/// Errors of the store.
pub async fn saved_lists(visitor: &Visitor) -> Result<Vec<SavedList>, ApiError> {
    Ok(read(visitor).await?.map(|(_, lists)| lists).unwrap_or_default())
}

/// Keeps a list, in place of that of the same type and name.
///
/// # Errors
/// A name or a question that is too long, too many lists; as a change of a setting over REST.
pub async fn keep(visitor: &Visitor, list: SavedList) -> Result<(), ApiError> {
    let name = list.name.chars().count();
    if !(1..=LONGEST_NAME).contains(&name) {
        return Err(ApiError::parameter("name", format!("must have 1 to {LONGEST_NAME} characters")));
    }
    if list.query.len() > LONGEST_QUERY {
        return Err(ApiError::parameter("query", format!("must have at most {LONGEST_QUERY} bytes")));
    }
    change(visitor, |lists| {
        lists.retain(|known| (known.type_id, &known.name) != (list.type_id, &list.name));
        lists.push(list);
    })
    .await
}

/// Forgets a list.
///
/// # Errors
/// As a change of a setting over REST.
pub async fn forget(visitor: &Visitor, type_id: i64, name: &str) -> Result<(), ApiError> {
    change(visitor, |lists| lists.retain(|known| (known.type_id, &*known.name) != (type_id, name))).await
}

/// The setting with its lists; nothing where there is none.
async fn read(visitor: &Visitor) -> Result<Option<(Setting, Vec<SavedList>)>, ApiError> {
    let stored = match get_setting(visitor.services(), visitor.caller.user_id, SETTING).await {
        Ok(stored) => stored,
        Err(ServiceError::Refused { code: ErrorCode::SettingNotFound, .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let setting = Setting::of(&stored)?;
    let lists = setting.payload.get_array(LISTS).into_iter().flatten();
    let mut lists: Vec<SavedList> = lists.filter_map(SavedList::read).collect();
    lists.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Some((setting, lists)))
}

/// The setting as it is stored.
struct Setting {
    tag: String,
    payload: Document,
}

impl Setting {
    fn of(stored: &RawDocument) -> Result<Self, ApiError> {
        let payload = decode(stored)?.get_document("payload").cloned().unwrap_or_default();
        Ok(Self { tag: entity_tag(stored), payload })
    }
}

async fn change(visitor: &Visitor, how: impl FnOnce(&mut Vec<SavedList>)) -> Result<(), ApiError> {
    let (setting, mut lists) =
        read(visitor).await?.map_or((None, Vec::new()), |(setting, lists)| (Some(setting), lists));
    let known = visitor.services().current_types().await?;
    lists.retain(|list| known.get(list.type_id).is_some());
    how(&mut lists);
    if lists.len() > MOST {
        return Err(ApiError::parameter("name", format!("at most {MOST} lists are kept; remove one")));
    }
    let user_id = visitor.caller.user_id;
    let (mut payload, tag) = setting.map_or((Document::new(), None), |setting| (setting.payload, Some(setting.tag)));
    payload.insert(LISTS, lists.iter().map(SavedList::written).collect::<Vec<Bson>>());
    let body = doc! {"identifier": SETTING, "user_id": user_id, "payload": payload, "setting_type": "APPLICATION"};
    let own = (&*visitor.caller, user_id);
    match tag {
        Some(tag) => {
            change_setting(visitor.services(), own, SETTING, &IfMatch::Tags(vec![tag]), NewState::Whole(&body)).await?
        }
        None => create_setting(visitor.services(), own, &body).await?,
    };
    Ok(())
}
