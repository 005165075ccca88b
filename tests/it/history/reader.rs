//! A reader of the stream of changes.

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// A stream of events that is being read.
pub(crate) struct Reader {
    response: Response,
    text: String,
}

impl Reader {
    /// Begins to read, after the event `last`. `None` when the service goes away before it has begun.
    pub(crate) async fn open(request: RequestBuilder, last: Option<&str>) -> Option<Self> {
        let mut request = request.header("Accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.send().await.ok()?;
        match response.status().as_u16() {
            200 => {}
            status => panic!("{status}: {}", response.text().await.unwrap_or_default()),
        }
        let mut reader = Self::of(response);
        // The first part says where it continues.
        assert!(reader.part().await?.contains("changes behind"));
        Some(reader)
    }

    /// The stream of an answer, from its first part.
    pub(crate) fn of(response: Response) -> Self {
        Self { response, text: String::new() }
    }

    /// The next part between empty lines; nothing when the stream has ended.
    pub(crate) async fn part(&mut self) -> Option<String> {
        loop {
            if let Some((part, rest)) = self.text.split_once("\n\n") {
                let (part, rest) = (part.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(part);
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    /// The next event: its name, its id and its data.
    pub(crate) async fn event(&mut self) -> Option<(String, String, Value)> {
        loop {
            let part = self.part().await?;
            let line = |name: &str| part.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let (Some(event), Some(data)) = (line("event: "), line("data: ")) {
                return Some((event, line("id: ").unwrap_or_default(), serde_json::from_str(&data).expect("JSON")));
            }
        }
    }
}
