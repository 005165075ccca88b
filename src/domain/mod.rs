//! Plain data and its rules.
